"""FaceScrub as the usual scripts leave it: actors/faces/NAME, download/NAME/face, MegaFace's NAME, and their like."""

from __future__ import annotations

import re
from pathlib import Path

from tacit.datasets.publishers.pack import Pack, counted, same_files
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError
from tacit.records.pixels import SUFFIXES

GENDERS = {
    **dict.fromkeys(("actors", "actor", "actor_faces", "actors_faces", "male", "men"), "male"),
    **dict.fromkeys(("actresses", "actress", "actress_faces", "actresses_faces", "female", "women"), "female"),
}
CROPPED = ("face", "faces")
LISTS = {
    "male": ("facescrub_actors.txt", "actors_users_normal_bbox.txt"),
    "female": ("facescrub_actresses.txt", "actresses_users_normal_bbox.txt"),
}

Face = tuple[Path, str, str]  # file, person, gender


def find_faces(folder: Path) -> list[Face]:
    """Every face image with its person and gender, in order.

    Gender is that of a folder (actors, actresses, ...) above, or of the publisher's list that names the person.
    Where some folder is called face or faces, only what is below such folders is a face; the rest is whole pictures.
    """
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    parts = {p: p.relative_to(folder).parts[:-1] for p in paths}
    cropped = [p for p in paths if any(part.lower() in CROPPED for part in parts[p])]
    listed: dict[str, str] | None = None
    found = []
    for path in cropped or paths:
        inside = [part for part in parts[path] if part.lower() not in CROPPED]
        person = next((p for p in reversed(inside) if p.lower() not in GENDERS), None)
        if person is None:
            raise InputError(f"{path} lies in no folder of a person; expected NAME/{path.name}")
        gender = next((GENDERS[p.lower()] for p in inside if p.lower() in GENDERS), None)
        if gender is None:
            listed = _listed(folder) if listed is None else listed
            gender = listed.get(_plain(person))
        if gender is None:
            raise InputError(
                f"{path.parent}: neither a folder actors or actresses above it nor the lists facescrub_actors.txt and "
                f"facescrub_actresses.txt in {folder} or beside it say this person's gender; add the lists"
            )
        found.append((path, person.replace("_", " "), gender))
    return found


def pack_facescrub(source: Source) -> Pack:
    """actors/NAME and actresses/NAME, linked where the disk is the same, else copied."""
    found = find_faces(source.path) if source.path.is_dir() else []
    if not found:
        raise InputError(f"{source.path} has no folder of face images; get {WHERE['facescrub']}, and pass the folder")
    files = {}
    for folder, gender in (("actors", "male"), ("actresses", "female")):
        of = [(path, f"{_folder_name(name)}/{path.name}") for path, name, g in found if g == gender]
        if len({target for _, target in of}) < len(of):
            raise InputError(f"{source.path} has some images of a person twice; pass the folder of one download")
        if not of:
            raise InputError(f"{source.path} has images of {counted([g for *_, g in found])}; both genders are needed")
        files[f"facescrub/{folder}"] = same_files(of)
    people = len({name for _, name, _ in found})
    return Pack(f"{len(found):,} images of {people:,} people: {counted([g for *_, g in found])}", files)


def _listed(folder: Path) -> dict[str, str]:
    """Gender by name, from the publisher's lists (name, image_id, face_id, url, bbox, sha256 between tabs)."""
    found: dict[str, str] = {}
    for path in [*sorted(folder.absolute().parent.glob("*.txt")), *sorted(folder.rglob("*.txt"))]:
        for gender, names in LISTS.items():
            if path.name.lower() in names:
                for line, text in Source(path, "facescrub").lines(path.name):
                    name, tab, _ = text.partition("\t")
                    if not tab:
                        raise InputError(f"{path}, line {line}: expected a name and a tab; fetch the list again")
                    found[_plain(name)] = gender
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()


def _folder_name(name: str) -> str:
    return name.replace(" ", "_")
