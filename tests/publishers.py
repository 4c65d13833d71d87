"""Small folders in the publishers' own formats, made up; and larger ones of sets that only owners have, to run with."""

from __future__ import annotations

import gzip
import zipfile

import numpy as np
import pandas as pd
from PIL import Image
from scipy.io import savemat, wavfile

from papers.data import prepare
from papers.data.faces import VOTES
from papers.data.signals import CHANNELS, MOVEMENT, POSTURE


def made(name, folder, **size):
    """A synthetic set by this name, below `folder` as below TACIT_DATA: enough rows to fit something small."""
    {"celeba": celeba, "enterface": enterface, "facescrub": facescrub, "mimic3": mimic}[name](folder / name, **size)
    if name in ("enterface", "mimic3"):
        prepare(name, folder / name, folder)


def celeba(folder, images=160, people=20):
    """The hair is the shade of the image's upper half, the person that of the lower."""
    rng = np.random.default_rng(0)
    attributes, parts, names = [], [], []
    for i in range(images):
        person, hair, name = i % people, (i // people) % 3, f"{i + 1:06d}.jpg"
        image = np.full((36, 30, 3), 40 + 60 * hair, dtype=float)
        image[18:] = 20 + 10 * person
        image += rng.normal(0, 4, image.shape)
        (folder / "Img" / "img_align_celeba").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / "Img" / "img_align_celeba" / name)
        marks = dict(zip(HEADS, rng.choice([-1, 1], len(HEADS)), strict=True))
        marks |= {h: 1 if hair == k else -1 for k, h in enumerate(HEADS[:3])} | {"Male": 1 if person % 2 else -1}
        attributes.append(f"{name} " + " ".join(map(str, marks.values())))
        parts.append(f"{name} {0 if person < 14 else 1 if person < 17 else 2}")
        names.append(f"{name} {person + 1}")
    for file, lines in (
        ("Anno/list_attr_celeba.txt", [str(images), " ".join(HEADS), *attributes]),
        ("Anno/identity_CelebA.txt", names),
        ("Eval/list_eval_partition.txt", parts),
    ):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("\n".join(lines) + "\n")
    return folder


def facescrub(folder, people=8, images=15):
    rng = np.random.default_rng(1)
    for p in range(people):
        home = folder / ("actors", "actresses")[p % 2] / "faces" / f"Person_{p}"
        home.mkdir(parents=True)
        for i in range(images):
            image = np.full((24, 20, 3), 40 + 20 * p, dtype=float) + rng.normal(0, 4, (24, 20, 3))
            Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(home / f"Person_{p}_{i}.jpeg")
    return folder


def enterface(folder, speakers=5, sentences=3, rate=8000):
    rng = np.random.default_rng(2)
    time = np.arange(rate // 4) / rate
    for speaker in range(1, speakers + 1):
        for e, emotion in enumerate(("anger", "disgust", "fear", "happiness", "sadness", "surprise")):
            for sentence in range(1, sentences + 1):
                home = folder / f"subject {speaker}" / emotion / f"sentence {sentence}"
                home.mkdir(parents=True)
                sound = np.sin(2 * np.pi * (200 * speaker + 40 * e) * time) + 0.1 * rng.standard_normal(len(time))
                wavfile.write(home / f"s{speaker}_{emotion[:2]}_{sentence}.wav", rate, (8000 * sound).astype(np.int16))
    return folder


def mimic(folder, admissions=600):
    rng = np.random.default_rng(3)
    tables = {
        "PATIENTS": ["ROW_ID,SUBJECT_ID,GENDER,DOB"],
        "ADMISSIONS": [
            "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,ADMISSION_TYPE,ADMISSION_LOCATION,INSURANCE,RELIGION,"
            "MARITAL_STATUS,ETHNICITY,HOSPITAL_EXPIRE_FLAG"
        ],
        "ICUSTAYS": ["HADM_ID,INTIME,FIRST_CAREUNIT,LOS"],
        "DIAGNOSES_ICD": ["HADM_ID,ICD9_CODE"],
        "PROCEDURES_ICD": ["HADM_ID,ICD9_CODE"],
    }
    for i in range(1, admissions + 1):
        gender, race = rng.choice(["F", "M"]), rng.choice(["WHITE", "BLACK/AFRICAN AMERICAN", "ASIAN"])
        died, age = int(rng.random() < 0.3), int(rng.integers(20, 89))
        tables["PATIENTS"].append(f"{i},{i},{gender},{2100 - age}-01-01 00:00:00")
        stay = f"2100-03-01 00:00:00,2100-03-{2 + 5 * died + i % 9:02d} 00:00:00"
        tables["ADMISSIONS"].append(
            f"{i},{i},{1000 + i},{stay},EMERGENCY,CLINIC,Private,{'CATHOLIC' if i % 2 else 'JEWISH'},"
            f"{'MARRIED' if i % 3 else 'SINGLE'},{race},{died}"
        )
        tables["ICUSTAYS"].append(f"{1000 + i},2100-03-01 01:00:00,{'MICU' if died else 'CCU'},{1 + died}.5")
        tables["DIAGNOSES_ICD"].append(f"{1000 + i},{'0389' if died else '4019'}")
        tables["PROCEDURES_ICD"].append(f"{1000 + i},9604")
    folder.mkdir(parents=True)
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


def picture(path, shade, size=(20, 16)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), shade, dtype=np.uint8)).save(path)


HEADS = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair", "Male", "Smiling", "Big_Lips", "Big_Nose", "Young")


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zipped(folder, target, prefix=""):
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, prefix + path.relative_to(folder).as_posix())
    return target


def fer(box, n=6):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, 48 * 48))
    usage = ["Training"] * (n - 2) + ["PublicTest", "PrivateTest"]
    lines = [f"{i % 7},{' '.join(map(str, p))},{u}" for i, (p, u) in enumerate(zip(images, usage, strict=True))]
    write(box / "fer2013" / "fer2013.csv", "\n".join(["emotion,pixels,Usage", *lines]) + "\n")
    votes = []
    for i, u in enumerate(usage):
        eight = ["8" if v == i % 3 else "0" for v in range(8)]
        votes.append(",".join([u, "" if i == 1 else f"fer{i:07d}.png", *eight, "2", "0"]))
    write(box / "fer2013new.csv", "\n".join(["Usage,Image name," + ",".join(VOTES), *votes]) + "\n")
    return images.reshape(-1, 48, 48)


def motion(box, people=(1, 2), lengths=(400, 300)):
    head = ["", *POSTURE[3:], *POSTURE[:3], *MOVEMENT[3:], *MOVEMENT[:3]]  # the publisher's order
    rng = np.random.default_rng(1)
    made = {}
    for code, trial in (("dws", 1), ("wlk", 7), ("wlk", 15)):
        for person, length in zip(people, lengths, strict=True):
            values = rng.normal(size=(length, 12)).round(6)
            table = pd.DataFrame(values, columns=head[1:])
            path = box / "A_DeviceMotion_data" / f"{code}_{trial}" / f"sub_{person}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            table.to_csv(path)
            made[code, trial, person] = table
    write(box / "data_subjects_info.csv", "code,weight,height,age,gender\n1,102,188,46,1\n2,72,180,28,0\n")
    return made


def har(box, features=5):
    rng = np.random.default_rng(2)
    root = box / "UCI HAR Dataset"
    write(root / "features.txt", "".join(f"{i} tBodyAcc-mean()-{i}\n" for i in range(1, features + 1)))
    names = ["WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"]
    write(root / "activity_labels.txt", "".join(f"{i} {n}\n" for i, n in enumerate(names, 1)))
    made = {}
    for part, subject, y in (
        ("train", [1, 1, 1, 3, 3, 3], [5, 5, 4, 4, 4, 1]),
        ("test", [2, 2, 2], [1, 1, 5]),
    ):
        n = len(y)
        X = rng.uniform(-1, 1, (n, features))
        write(root / part / f"X_{part}.txt", "".join(" " + "  ".join(f"{v:.7e}" for v in r) + "\n" for r in X))
        write(root / part / f"y_{part}.txt", "".join(f"{v}\n" for v in y))
        write(root / part / f"subject_{part}.txt", "".join(f"{v}\n" for v in subject))
        signals = rng.normal(size=(n, 128, 9))
        for i in range(1, n):
            if (subject[i], y[i]) == (subject[i - 1], y[i - 1]):
                signals[i, :64] = signals[i - 1, 64:]
        for c, channel in enumerate(CHANNELS):
            text = "".join("  " + " ".join(f"{v: .7e}" for v in row) + "\n" for row in signals[:, :, c])
            write(root / part / "Inertial Signals" / f"{channel}_{part}.txt", text)
        made[part] = X, signals
    return made


def pgm(image):
    height, width = image.shape
    return f"P5\n{width} {height}\n255\n".encode() + image.astype(np.uint8).tobytes()


def cmu(box):
    rng = np.random.default_rng(3)
    made = {}
    for person in ("an2i", "at33"):
        for pose in ("left", "up"):
            for eyes in ("open", "sunglasses"):
                image = rng.integers(0, 256, (30, 32))
                name = f"{person}_{pose}_happy_{eyes}_4.pgm"
                write(box / "faces" / person / name, pgm(image))
                made[person, pose, eyes] = image
    write(box / "faces" / "an2i" / "an2i_right_sad_open_4.bad", b"damaged, says the publisher")
    return made


def orl(box):
    rng = np.random.default_rng(4)
    made = {(p, i): rng.integers(0, 256, (112, 92)) for p in (1, 2, 10) for i in (1, 2, 10)}
    for (p, i), image in made.items():
        write(box / "att_faces" / f"s{p}" / f"{i}.pgm", pgm(image))
    write(box / "att_faces" / "README", "credit")
    return made


def genki(box):
    rng = np.random.default_rng(5)
    arrays, images = {"K1": 2, "K2": 2, "D": 256, "Ntrain": 6, "Ntest": 4}, []
    for part, n in (("train", 6), ("test", 4)):
        images.append(rng.random((n, 16, 16)))
        arrays[f"X{part}"] = images[-1].transpose(0, 2, 1).reshape(n, 256).T  # MATLAB lays columns one by one
        arrays[f"y1_{part}"] = np.tile([1, 2], n // 2)[None]
        arrays[f"y2_{part}"] = np.repeat([1, 2], n // 2)[None]
    savemat(box / "genki.mat", arrays)
    return np.concatenate(images)


def genki4k(box):
    for i in range(1, 5):
        picture(box / "genki4k" / "files" / f"file{i:04d}.jpg", 50 * i, size=(60 + i, 80))
    return write(box / "genki4k" / "labels.txt", "1 -.1 .2 .0\n1 0 0 0\n0 1 1 1\n0 .5 .5 .5\n")


def emodb(box):
    rate, rng = 16000, np.random.default_rng(6)
    (box / "wav").mkdir(parents=True)
    for name, seconds in (("03a01Fa", 1.2), ("03a01Wa", 3.0), ("08b02Tb", 2.0), ("14a05Ld", 1.5)):
        wavfile.write(
            box / "wav" / f"{name}.wav", rate, (3000 * rng.standard_normal(int(rate * seconds))).astype(np.int16)
        )
    return [1.2, 3.0, 2.0, 1.5]


def adult(box):
    """The publisher's spelling: blanks after commas, a remark above the test part, a dot after its labels."""
    line = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, {}, 0, 0, 40, ?, {}"
    write(box / "adult.data", "\n".join([line.format("Male", "<=50K"), line.format("Female", ">50K")]) + "\n\n")
    write(box / "adult.test", "|1x3 Cross validator\n" + line.format("Male", ">50K.") + "\n")


def titanic(box):
    head = "PassengerId,Survived,Pclass,Name,Sex,Age,SibSp,Parch,Ticket,Fare,Cabin,Embarked"
    rows = ['1,0,3,"Doe, Mr. A",male,22,1,0,A/5 1,7.25,,S', '2,1,1,"Roe, Mrs. B",female,,1,0,PC 2,71.5,C85,C']
    write(box / "train.csv", "\r\n".join([head, *rows]) + "\r\n")


def mnist(box):
    rng = np.random.default_rng(7)
    made = rng.integers(0, 256, (5, 28, 28)).astype(np.uint8)
    for stem, images in (("train", made[:3]), ("t10k", made[3:])):
        sizes = b"".join(n.to_bytes(4, "big") for n in images.shape)
        labels = bytes(range(len(images)))
        write(box / f"{stem}-images-idx3-ubyte.gz", gzip.compress(b"\0\0\x08\x03" + sizes + images.tobytes()))
        write(box / f"{stem}-labels-idx1-ubyte", b"\0\0\x08\x01" + len(labels).to_bytes(4, "big") + labels)
    return made
