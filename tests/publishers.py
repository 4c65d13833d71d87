"""Small folders in the publishers' own formats, made up; and larger ones of sets that only owners have, to run with."""

from __future__ import annotations

import struct
import zipfile

import numpy as np
import pandas as pd
from PIL import Image
from scipy.io import savemat, wavfile

from tacit.datasets.publishers.fer2013_files import VOTES
from tacit.datasets.publishers.har_files import CHANNELS
from tacit.datasets.publishers.motion_files import MOVEMENT, POSTURE


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
        marks = dict(zip(FORTY, rng.choice([-1, 1], 40), strict=True))
        marks |= {h: 1 if hair == k else -1 for k, h in enumerate(HEADS[:3])} | {"Male": 1 if person % 2 else -1}
        attributes.append(f"{name} " + " ".join(map(str, marks.values())))
        parts.append(f"{name} {0 if person < 14 else 1 if person < 17 else 2}")
        names.append(f"{name} {person + 1}")
    for file, lines in (
        ("Anno/list_attr_celeba.txt", [str(images), " ".join(FORTY), *attributes]),
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


def _mimic(folder, admissions=600):
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


FORTY = [
    "5_o_Clock_Shadow",
    "Arched_Eyebrows",
    "Attractive",
    "Bags_Under_Eyes",
    "Bald",
    "Bangs",
    "Big_Lips",
    "Big_Nose",
    "Black_Hair",
    "Blond_Hair",
    "Blurry",
    "Brown_Hair",
    "Bushy_Eyebrows",
    "Chubby",
    "Double_Chin",
    "Eyeglasses",
    "Goatee",
    "Gray_Hair",
    "Heavy_Makeup",
    "High_Cheekbones",
    "Male",
    "Mouth_Slightly_Open",
    "Mustache",
    "Narrow_Eyes",
    "No_Beard",
    "Oval_Face",
    "Pale_Skin",
    "Pointy_Nose",
    "Receding_Hairline",
    "Rosy_Cheeks",
    "Sideburns",
    "Smiling",
    "Straight_Hair",
    "Wavy_Hair",
    "Wearing_Earrings",
    "Wearing_Hat",
    "Wearing_Lipstick",
    "Wearing_Necklace",
    "Wearing_Necktie",
    "Young",
]
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


def fer(box, n=6, end="\n"):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, 48 * 48))
    usage = ["Training"] * (n - 2) + ["PublicTest", "PrivateTest"]
    lines = [f"{i % 7},{' '.join(map(str, p))},{u}" for i, (p, u) in enumerate(zip(images, usage, strict=True))]
    write(box / "fer2013" / "fer2013.csv", end.join(["emotion,pixels,Usage", *lines]) + end)
    votes = []
    for i, u in enumerate(usage):
        eight = ["8" if v == i % 3 else "0" for v in range(8)]
        votes.append(",".join([u, "" if i == 1 else f"fer{i:07d}.png", *eight, "2", "0"]))
    write(box / "fer2013new.csv", end.join(["Usage,Image name," + ",".join(VOTES), *votes]) + end)
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


def pgm(image, text=False, largest=255):
    height, width = image.shape
    if text:
        rows = "\n".join(" ".join(map(str, row)) for row in image)
        return f"P2\n# made by hand\n{width} {height}\n{largest}\n{rows}\n".encode()
    return f"P5\n{width} {height}\n{largest}\n".encode() + image.astype(np.uint8).tobytes()


def cmu(box, size="_4", shape=(30, 32), text=False):
    rng = np.random.default_rng(3)
    made = {}
    for person in ("an2i", "at33"):
        for pose in ("left", "up"):
            for eyes in ("open", "sunglasses"):
                image = rng.integers(0, 256, shape)
                name = f"{person}_{pose}_happy_{eyes}{size}.pgm"
                write(box / "faces" / person / name, pgm(image, text))
                made[person, pose, eyes] = image
    write(box / "faces" / "an2i" / f"an2i_right_sad_open{size}.bad", b"damaged, says the publisher")
    return made


def orl(box):
    rng = np.random.default_rng(4)
    made = {(p, i): rng.integers(0, 256, (112, 92)) for p in (1, 2, 10) for i in (1, 2, 10)}
    for (p, i), image in made.items():
        write(box / "att_faces" / f"s{p}" / f"{i}.pgm", pgm(image))
    write(box / "att_faces" / "README", "credit")
    return made


def genki(box, **changed):
    """genki.mat, with some arrays changed, or left out where they are None."""
    rng = np.random.default_rng(5)
    arrays, images = {"K1": 2, "K2": 2, "D": 256, "Ntrain": 6, "Ntest": 4}, []
    for part, n in (("train", 6), ("test", 4)):
        images.append(rng.random((n, 16, 16)))
        arrays[f"X{part}"] = images[-1].transpose(0, 2, 1).reshape(n, 256).T  # MATLAB lays columns one by one
        arrays[f"y1_{part}"] = np.tile([1, 2], n // 2)[None]
        arrays[f"y2_{part}"] = np.repeat([1, 2], n // 2)[None]
    savemat(box / "genki.mat", {k: v for k, v in (arrays | changed).items() if v is not None})
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
