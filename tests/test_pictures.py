"""No tracked file holds a picture of a data set: most terms forbid passing them on, and people are on them."""

import base64
import io
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image

ROOT = Path(__file__).parents[1]
RASTER = re.compile(r"data:image/(?!svg)[a-z]+;base64,([^\"')]+)|<ima" + r"ge\b|\"image/(?:png|jpe?g|gif|webp)\"")
PICTURES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff", ".pgm", ".ppm", ".npy", ".npz"}
# thousands of points or cells that matplotlib drew as one image: plots, which `test_plots_are_no_photographs` shows
PLOTS = {
    "papers/eigan/fig7.svg",
    "papers/eigan/synthetic.svg",
    "papers/anonymizing-autoencoder/fig7.svg",
    "papers/anonymizing-autoencoder/fig9.svg",
}


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [n for n in listed.stdout.split("\0") if n and (ROOT / n).is_file() and n != "tests/test_pictures.py"]


def pictures_in(name, content):
    """What in a file is a raster image, or text long enough to be one."""
    if Path(name).suffix in PICTURES:
        return [name]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:  # a bundle
        return []
    for svg in re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", text):
        text = text.replace(svg, "") + base64.b64decode(svg).decode()
    return [m.group(0)[:60] for m in [*RASTER.finditer(text), *re.finditer(r"[A-Za-z0-9+/]{1500,}={0,2}", text)]]


def test_no_tracked_file_holds_a_picture():
    found = {name: of for name in tracked() if (of := pictures_in(name, (ROOT / name).read_bytes()))}
    assert set(found) == PLOTS


def test_a_picture_is_found():
    pixels = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)).save(pixels, "PNG")
    text = base64.b64encode(pixels.getvalue()).decode()
    inside = f'<svg><ima{"ge"} href="data:image/png;base64,{text}"/></svg>'
    assert pictures_in("a.svg", inside.encode())
    assert pictures_in("a.json", f'{{"bytes": "{text}"}}'.encode())
    assert pictures_in("a.md", f"![x](data:image/svg+xml;base64,{base64.b64encode(inside.encode()).decode()})".encode())
    assert pictures_in("a.jpg", b"")
    assert not pictures_in("a.svg", b"<svg><path d='M0 0'/></svg>")


@pytest.mark.parametrize("name", sorted(PLOTS))
def test_plots_are_no_photographs(name):
    """Points on a transparent ground, or cells in the colours of a colour map."""
    colours = {tuple(c) for c in (colormaps["viridis"](range(256))[:, :3] * 255).round().astype(int)}
    for text in RASTER.findall((ROOT / name).read_text()):
        if text:
            pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(re.sub(r"\s", "", text)))).convert("RGBA"))
            clear, shown = (pixels[..., 3] == 0).mean(), {tuple(p[:3]) for p in pixels[pixels[..., 3] == 255]}
            assert clear > 0.5 or all(any(np.abs(np.subtract(p, c)).max() <= 1 for c in colours) for p in shown), clear
