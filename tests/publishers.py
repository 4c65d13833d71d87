"""Small folders in the formats of publishers who alone may pass their sets on; and some rows of each, to run with."""

from __future__ import annotations

import struct

import numpy as np
from PIL import Image
from scipy.io import wavfile


def made(name, folder):
    """A made-up set by this name, below `folder` as below TACIT_DATA: enough rows to fit something small."""
    return {"celeba": _celeba, "enterface": _enterface, "facescrub": _facescrub, "mimic3": _mimic}[name](folder / name)


def _celeba(folder, images=160, people=20):
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
        marks = [1 if hair == h else -1 for h in range(3)] + [-1, 1 if person % 2 else -1, 1 if i % 3 else -1]
        attributes.append(f"{name} " + " ".join(map(str, marks)))
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


def _facescrub(folder, people=8, images=15):
    rng = np.random.default_rng(1)
    for p in range(people):
        home = folder / ("actors", "actresses")[p % 2] / "faces" / f"Person_{p}"
        home.mkdir(parents=True)
        for i in range(images):
            image = np.full((24, 20, 3), 40 + 20 * p, dtype=float) + rng.normal(0, 4, (24, 20, 3))
            Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(home / f"Person_{p}_{i}.jpeg")
    return folder


def _enterface(folder, speakers=5, sentences=3, rate=8000):
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


def _mimic(folder, admissions=160):
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
            f"{i},{i},{1000 + i},{stay},EMERGENCY,CLINIC,Private,,{'MARRIED' if i % 3 else 'SINGLE'},{race},{died}"
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


NAMES = [f"{i:06d}.jpg" for i in range(1, 7)]
HEADS = ["Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair", "Male", "Smiling"]
MARKS = [
    (1, -1, -1, -1, 1, 1),
    (-1, 1, -1, -1, -1, 1),
    (1, -1, 1, -1, 1, -1),  # two colours: no hair label
    (-1, -1, -1, 1, 1, 1),
    (-1, -1, -1, -1, -1, -1),  # none
    (-1, -1, 1, -1, -1, 1),
]
PARTS, PEOPLE = (0, 0, 0, 1, 1, 2), (7, 7, 9, 9, 11, 11)


def celeba(folder, layout="flat"):
    """Six images as the publisher lays them out, flat, or as Kaggle does."""
    homes = {"flat": ("", "", "", "img_align_celeba"), "publisher": ("Anno", "Eval", "Anno", "Img/img_align_celeba")}
    anno, parts, identity, images = homes.get(layout, ("", "", "", "img_align_celeba/img_align_celeba"))
    for i, name in enumerate(NAMES):
        picture(folder / images / name, 40 * i)
    for home in (anno, parts, identity):
        (folder / home).mkdir(exist_ok=True)
    if layout == "kaggle":
        rows = [",".join([n, *map(str, m)]) for n, m in zip(NAMES, MARKS, strict=True)]
        (folder / "list_attr_celeba.csv").write_text("\r\n".join([",".join(["image_id", *HEADS]), *rows]))
        rows = [f"{n},{p}" for n, p in zip(NAMES, PARTS, strict=True)]
        (folder / "list_eval_partition.csv").write_text("\n".join(["image_id,partition", *rows]))
        return folder
    lines = [f"{n}  " + " ".join(map(str, m)) for n, m in zip(NAMES, MARKS, strict=True)]
    (folder / anno / "list_attr_celeba.txt").write_text("\n".join(["6", " ".join(HEADS) + " ", *lines]) + "\n")
    rows = [f"{n} {p}\n" for n, p in zip(NAMES, PARTS, strict=True)]
    (folder / parts / "list_eval_partition.txt").write_text("".join(rows))
    rows = [f"{n} {p}\n" for n, p in zip(NAMES, PEOPLE, strict=True)]
    (folder / identity / "identity_CelebA.txt").write_text("".join(rows))
    return folder


FACES = {"male": {"Al_One": 3, "Bo_Two": 1}, "female": {"Cy_Three": 2, "Di": 4}}
LAYOUTS = {
    "script": ("actors/faces/{0}", "actresses/faces/{0}"),
    "script with images": ("actors/faces/{0}", "actresses/faces/{0}"),
    "bare": ("actors/{0}", "actresses/{0}"),
    "kaggle": ("Actor_Faces/{0}", "Actress_Faces/{0}"),
    "download": ("download/{0}/face", "download/{0}/face"),
    "megaface": ("FaceScrub/{0}", "FaceScrub/{0}"),
}


def facescrub(folder, layout):
    for home, (gender, people) in zip(LAYOUTS[layout], FACES.items(), strict=True):
        for name, count in people.items():
            for i in range(count):
                picture(folder / home.format(name) / f"{name}_{i}.jpeg", 9, size=(10 + i, 12))
                if layout in ("download", "script with images"):  # whole pictures beside the faces
                    whole = home.format(name).replace("/face", "") if layout == "download" else f"actors/images/{name}"
                    picture(folder / whole / f"{name}_{i}.jpeg", 9, size=(99, 99))
        if layout in ("download", "megaface"):
            word = {"male": "actors", "female": "actresses"}[gender]
            rows = "".join(f"{n.replace('_', ' ')}\t1\t2\thttp://x\t1,2,3,4\tabc\r\n" for n in people)
            (folder / f"facescrub_{word}.txt").write_text("name\timage_id\tface_id\turl\tbbox\tsha256\r\n" + rows)
    return folder


def avi(sound, rate):
    """Two streams, a picture and stereo sound in two pieces; the picture's chunk has an odd size."""

    def chunk(name, body):
        return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)

    pieces = np.column_stack([sound, sound]).astype("<i2")
    half = len(pieces) // 2
    stream = [
        chunk(b"LIST", b"strl" + chunk(b"strh", b"vids" + bytes(52)) + chunk(b"strf", bytes(40))),
        chunk(
            b"LIST",
            b"strl"
            + chunk(b"strh", b"auds" + bytes(52))
            + chunk(b"strf", struct.pack("<HHIIHH", 1, 2, rate, 4 * rate, 4, 16)),
        ),
    ]
    film = chunk(b"00dc", b"abc") + chunk(b"01wb", pieces[:half].tobytes()) + chunk(b"00dc", b"abc")
    film = chunk(b"LIST", b"movi" + film + chunk(b"01wb", pieces[half:].tobytes()))
    return chunk(b"RIFF", b"AVI " + chunk(b"LIST", b"hdrl" + chunk(b"avih", bytes(56)) + b"".join(stream)) + film)
