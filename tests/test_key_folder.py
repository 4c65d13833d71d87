"""The owner's keys: in a folder of their own, and wherever a run is killed, beside no release but their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command
from tacit.errors import InputError
from tacit.release.bundle import read_bundle, read_manifest, sign
from tacit.release.keys import key_folder, key_path
from tacit.release.signing import new_signing_key

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    sex, rich = rng.integers(2, size=(2, 400))
    path = tmp_path_factory.mktemp("table") / "people.csv"
    columns = {"a": rng.standard_normal(400) + sex, "b": rng.standard_normal(400) + rich, "sex": sex, "rich": rich}
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def noisy():
    data = tacit.load_dataset("quadrants", n=200)
    return tacit.baselines.LaplaceMechanism(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive), data


def test_no_key_is_ever_handed_over(table, tmp_path, few_steps, one_attacker):
    out = tmp_path / "handover"
    options = ("--target", "rich", "--sensitive", "sex", "--filter", "eigan", "--out", out)
    done = tacit_command("fit", table, *options)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in out.iterdir()) == ["audit.json", "filter.tacit", "release.parquet", "report.html"]
    kept = sorted((tmp_path / "handover-keys").iterdir())
    assert [p.name.split(".", 1)[1] for p in kept] == ["noise.key", "owner.key", "source.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in kept} == {0o600}
    keys = [p for p in kept if p.suffix == ".key"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in keys} == {0o600}
    for key in keys:
        assert not [p for p in out.rglob("*") if key.read_text().encode() in p.read_bytes()]
    told = "".join(re.sub(r"\s", "", done.stdout))
    assert all(p.name in told for p in keys)
    # another run: its keys come beside those of the first, whose release may be out there
    again = tacit_command("fit", table, *options)
    assert again.returncode == 0, again.stderr
    assert len(list((tmp_path / "handover-keys").iterdir())) == 6
    assert all(p.exists() for p in keys)
    # an earlier version's key is not passed on either
    (out / "noise.key").write_text("00" * 32)
    refused = tacit_command("fit", table, *options)
    assert refused.returncode == 2
    assert "lies in the folder that is handed over" in " ".join(refused.stderr.split())


def test_the_folder_of_keys_is_never_the_folder_that_is_handed_over(table, tmp_path):
    for asked in (tmp_path / "out", tmp_path / "out" / "keys", tmp_path / "out" / ".." / "out"):
        with pytest.raises(InputError, match="is handed over with out, and keys never are"):
            key_folder(tmp_path / "out", asked)
    with pytest.raises(InputError, match="keys never are"):
        key_folder(tmp_path / "x.tacit", tmp_path)
    assert key_folder("x/../out").name == "out-keys"
    (tmp_path / "out").mkdir()
    shutil.copy(table, tmp_path / "out" / "release.csv")
    refused = tacit_command("fit", tmp_path / "out" / "release.csv", "--target", "rich", "--sensitive", "sex",
                            "--out", tmp_path / "out")  # fmt: skip
    assert "would be overwritten" in " ".join(refused.stderr.split())
    assert (tmp_path / "out" / "release.csv").read_bytes() == table.read_bytes()


def test_a_key_is_called_by_its_bundle_signed_or_not(tmp_path):
    (f, data), (g, _) = noisy(), noisy()
    paths = []
    for i, each in enumerate((f, g)):  # the same fit twice: two keys, two names
        bundle = tacit.save(each, tmp_path / f"{i}.tacit", keys=tmp_path / "keys")
        paths.append(key_path(tmp_path / "keys", read_manifest(bundle), "noise"))
    assert paths[0] != paths[1]
    again = tacit.load(tmp_path / "0.tacit", noise_key=paths[0]).transform(data.X)
    assert np.abs(again - f.transform(data.X)).max() < 1e-5
    secret, _ = new_signing_key(tmp_path / "signer.key")
    sign(tmp_path / "0.tacit", secret)
    assert key_path(tmp_path / "keys", read_manifest(tmp_path / "0.tacit"), "noise") == paths[0]


@pytest.mark.skipif(os.name != "posix", reason="the umask is POSIX")
def test_keys_are_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        tacit.save(noisy()[0], tmp_path / "x.tacit", keys=tmp_path / "keys")
        new_signing_key(tmp_path / "signer.key")
    finally:
        os.umask(before)
    made = [*(tmp_path / "keys").iterdir(), tmp_path / "signer.key"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in made} == {0o600}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


KILLED = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
import test_key_folder as t, tacit.files
filters = [t.noisy()[0] for _ in range(9)]
{prepare}
real, count = os.replace, 0
for kill in range(1, 99):
    if (pid := os.fork()) == 0:
        def replace(*a):
            global count
            count += 1
            if count == (kill + 1) // 2 and kill % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            real(*a)
            if count == (kill + 1) // 2:
                os.kill(os.getpid(), signal.SIGKILL)
        os.replace = replace
        {work}
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    check(kill)
    if ended == 0:
        print("kills", kill - 1)
        break
"""


def check_whole(folder: Path) -> bool:
    """Whether what was handed over has its own key, draws as it was released, and nothing else lies there."""
    out = folder / "handover"
    for path in out.glob("[!.]*.tacit"):
        assert key_path(folder / "handover-keys", read_manifest(path), "noise").exists()
    assert not list(out.rglob("*.key"))
    return (out / "filter.tacit").exists()


def check_mixed(folder: Path) -> None:
    """Files come in this order, all of one run: wherever it was killed, what is there is the first few of them."""
    out, keys = folder / "handover", folder / "handover-keys"
    there = {p.name for p in out.glob("[!.]*")}
    order = ["report.html", "audit.json", "filter.tacit", "release.parquet"]
    assert there == set(order[: len(there)])
    if "filter.tacit" in there:
        bundle = read_bundle(out / "filter.tacit")
        assert key_path(keys, bundle.manifest, "owner").exists()
        assert json.loads(bundle.members["audit.json"]) == json.loads((out / "audit.json").read_text())


def run_killed(prepare: str, work: str, folder: Path) -> int:
    code = KILLED.format(tests=str(Path(__file__).parent), prepare=textwrap.dedent(prepare), work=work)
    ran = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return int(re.findall(r"kills (\d+)", ran.stdout)[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_save_that_is_killed_at_any_step_leaves_no_bundle_without_its_key(tmp_path):
    prepare = """
    from pathlib import Path
    folder = Path(sys.argv[1])
    def check(kill):
        t.check_whole(folder)
    """
    work = "t.tacit.save(filters[kill % 9], folder / 'handover' / 'filter.tacit', keys=folder / 'handover-keys')"
    kills = run_killed(prepare, work, tmp_path)
    assert kills >= 6  # before and after each of three files, at least
    assert check_whole(tmp_path)  # the last one was not killed
    assert len(list((tmp_path / "handover-keys").glob("*.noise.key"))) >= 4


@pytest.mark.slow  # guards the whole command, killed with SIGKILL before and after each file it writes
def test_a_fit_that_is_killed_at_any_step_mixes_nothing(table, tmp_path):
    prepare = f"""
    from pathlib import Path
    folder = Path(sys.argv[1])
    from commands import tacit_command
    os.chdir(folder)
    def fit():
        done = tacit_command("fit", {str(table)!r}, "--target", "rich", "--sensitive", "sex", "--filter", "linear-arl",
                             "--out", folder / "handover")
        assert done.returncode == 0, done.stderr
    """
    prepare += """
    def check(kill):
        t.check_mixed(folder)
    """
    assert run_killed(prepare, "fit()", tmp_path) >= 8
