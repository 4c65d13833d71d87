"""Where each data set is to be had: what its publisher calls it, and which of his files are read."""

from __future__ import annotations

WHERE = {
    "adult": "adult.data and adult.test of 'Adult', UCI Machine Learning Repository",
    "celeba": "CelebA of the Chinese University of Hong Kong (its terms forbid passing copies on): "
    "list_attr_celeba.txt, identity_CelebA.txt, list_eval_partition.txt and the aligned images img_align_celeba; "
    "or Kaggle's csv files",
    "cmu_faces": "'CMU Face Images' of the UCI Machine Learning Repository (faces_4.tar.gz, or faces.tar.gz with all "
    "sizes)",
    "emodb": "download.zip of emodb.bilderbar.info (Burkhardt et al. 2005, TU Berlin)",
    "enterface": "the eNTERFACE'05 EMOTION database (folders 'subject 1' and so on) from enterface.net",
    "facescrub": "FaceScrub of Ng and Winkler: its lists facescrub_actors.txt and facescrub_actresses.txt, and the "
    "face images that a script fetched by them (or MegaFace's copy)",
    "fer_plus": "fer2013.csv of Kaggle's 'Challenges in Representation Learning: Facial Expression Recognition', and "
    "fer2013new.csv of the GitHub repository microsoft/FERPlus, in one folder",
    "genki": "test/genki.mat of the GitHub repository hammlab/MinimaxFilter",
    "genki4k": "GENKI-4K or GENKI-R2009a of the Machine Perception Laboratory, UC San Diego",
    "mimic3": "MIMIC-III of PhysioNet, which asks for a signed agreement (mimic_demo is free); all .csv.gz files in "
    "one folder",
    "mimic_demo": "the MIMIC-III clinical database demo v1.4 of PhysioNet; its csv files in one folder",
    "mnist": "the four IDX files of MNIST (train-images-idx3-ubyte.gz and so on)",
    "motionsense": "A_DeviceMotion_data.zip and data_subjects_info.csv, in data/ of the GitHub repository "
    "mmalekzadeh/motion-sense",
    "orl_faces": "'The Database of Faces' (att_faces.zip) of AT&T Laboratories Cambridge",
    "titanic": "titanic.csv of the public passenger list (Kaggle's train.csv)",
    "uci_har": "'Human Activity Recognition Using Smartphones' of the UCI Machine Learning Repository, the "
    "zip as it is",
}
