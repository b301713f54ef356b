"""Embeddings: like objects lie near one another, prototypes and duplicates are those of slow references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bank_cases import write_bank
from numpy.typing import NDArray

from segpaste.bank import (
    BankError,
    SimilarToPrototype,
    class_prototypes,
    copy_crops,
    create_bank_dataloader,
    embed_bank,
    near_duplicates,
    open_bank,
)
from segpaste.bank.embed._statistics import statistics_embedding
from segpaste.bank.embed.embedders import make_embedder, projected

SIZE = (61, 53)


def draw(kind: str, colour: tuple[int, int, int], seed: int, scale: float = 1.0) -> tuple[Any, Any]:
    """A shape with stripes or without, somewhere in the crop, on noise; seeds vary place, size and colour a little."""
    rng = np.random.default_rng([seed, 7])
    radius = scale * rng.uniform(12, 15)
    cy, cx = rng.uniform(radius + 1, SIZE[0] - radius - 2), rng.uniform(radius + 1, SIZE[1] - radius - 2)
    y, x = (np.mgrid[: SIZE[0], : SIZE[1]] - np.array([cy, cx])[:, None, None]) / radius
    inside = {"disc": x**2 + y**2 < 1, "bar": (abs(x) < 1) & (abs(y) < 0.4), "striped disc": x**2 + y**2 < 1}[kind]
    light = 1 - 0.15 * x + (0.5 * (np.sin(9 * y) > 0) if kind.startswith("striped") else 0)
    pixels = np.array(colour)[:, None, None] * light + rng.normal(0, 6, (3, *SIZE)) + rng.normal(0, 5, (3, 1, 1))
    image = rng.integers(0, 256, (3, *SIZE))
    return np.where(inside, pixels, image).clip(0, 255).astype(np.uint8), inside[None]


KINDS = [
    ("disc", (150, 40, 40)),
    ("disc", (40, 60, 150)),
    ("bar", (150, 40, 40)),
    ("striped disc", (110, 110, 40)),
    ("disc", (110, 110, 40)),
]


class TestStatistics:
    def test_like_objects_are_nearer_than_others(self) -> None:
        """5 kinds that differ in colour, outline or texture alone: the nearest 5 of an object are those of its kind."""
        drawn = [draw(*kind, seed=100 * n + i) for n, kind in enumerate(KINDS) for i in range(6)]
        vectors = statistics_embedding(np.stack([d[0] for d in drawn]), np.stack([d[1] for d in drawn]))
        kinds = np.repeat(np.arange(len(KINDS)), 6)
        nearest = (-vectors @ vectors.T).argsort(1)[:, :6]
        right = (kinds[nearest] == kinds[:, None]).mean()
        assert right > 0.97

    def test_neither_background_nor_place_nor_size_matter(self) -> None:
        image, alpha = draw("striped disc", (110, 110, 40), 3)
        one = statistics_embedding(image[None], alpha[None])[0]
        other = np.where(alpha, image, 255 - image)
        np.testing.assert_array_equal(statistics_embedding(other[None], alpha[None])[0], one)
        shift = ((0, 0), (9, 2), (0, 11))
        moved, mask = np.pad(image, shift), np.pad(alpha, shift)
        np.testing.assert_array_equal(statistics_embedding(moved[None], mask[None])[0], one)
        larger, mask = image.repeat(2, 1).repeat(2, 2), alpha.repeat(2, 1).repeat(2, 2)
        assert statistics_embedding(larger[None], mask[None])[0] @ one > 0.97

    def test_a_crop_does_not_know_of_the_others(self) -> None:
        drawn = [draw(*KINDS[i % 5], seed=i) for i in range(7)]
        images, alphas = np.stack([d[0] for d in drawn]), np.stack([d[1] for d in drawn])
        alphas[2] = False
        whole = statistics_embedding(images, alphas)
        assert whole.shape == (7, 256)
        assert whole.dtype == np.float32
        for i in range(7):
            np.testing.assert_array_equal(statistics_embedding(images[i : i + 1], alphas[i : i + 1])[0], whole[i])
        np.testing.assert_allclose(np.linalg.norm(whole, axis=1), [1, 1, 0, 1, 1, 1, 1], atol=1e-6)

    @pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 3)])
    def test_tiny_crops(self, size: tuple[int, int]) -> None:
        vectors = statistics_embedding(np.full((2, 3, *size), 255, np.uint8), np.ones((2, 1, *size), bool))
        assert np.isfinite(vectors).all()
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    drawn = [draw(*KINDS[i % 5], seed=i) for i in range(20)]
    return write_bank(
        tmp_path_factory.mktemp("plain") / "bank",
        [i % 5 for i in range(20)],
        size=SIZE,
        image_ids=list(range(20)),
        images=[d[0] for d in drawn],
        alphas=[d[1] for d in drawn],
    )


class TestEmbedBank:
    @pytest.mark.parametrize("kind", [None, "lmdb", "webdataset"])
    def test_a_new_bank_with_the_same_crops(self, kind: Any, plain: Any, tmp_path: Path) -> None:
        counted: list[int] = []
        new = open_bank(embed_bank(plain, tmp_path / "new", batch_size=7, format=kind, announce=counted.append))
        new.verify()
        assert counted == [7, 7, 6]
        assert new.format == (kind or "memmap")
        assert new.meta.has_embeddings
        assert new.meta.built_from == {"embedder": "statistics", "made_from": plain.version}
        old, columns = plain.read(range(20)), new.read(range(20))
        assert set(columns) == {*old, "embedding"}
        for name, values in old.items():
            np.testing.assert_array_equal(columns[name], values)
        wanted = statistics_embedding(old["image"], old["alpha"]).astype(np.float16)
        np.testing.assert_array_equal(columns["embedding"], wanted)

    def test_the_batch_size_does_not_matter(self, plain: Any, tmp_path: Path) -> None:
        versions = {open_bank(embed_bank(plain, tmp_path / f"{n}", batch_size=n)).version for n in (1, 6, 64)}
        assert len(versions) == 1

    def test_embeddings_are_replaced(self, plain: Any, tmp_path: Path) -> None:
        first = open_bank(embed_bank(plain, tmp_path / "first", lambda images, alphas: np.ones((len(images), 256))))
        again = open_bank(embed_bank(first, tmp_path / "again"))
        assert (first.read([3])["embedding"] == 1).all()
        np.testing.assert_allclose(np.linalg.norm(again.read([3])["embedding"].astype(float)), 1, atol=1e-3)

    @pytest.mark.parametrize("value", [np.zeros((1, 255)), np.full((7, 256), np.nan)], ids=["shape", "nan"])
    def test_what_is_no_embedding_leaves_nothing(self, value: Any, plain: Any, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"expected finite embeddings \[7, 256\]"):
            embed_bank(plain, tmp_path / "new", lambda images, alphas: value, batch_size=7)
        assert list(tmp_path.iterdir()) == []

    def test_some_crops(self, plain: Any, tmp_path: Path) -> None:
        some = open_bank(copy_crops(plain, tmp_path / "some", [5, 0, 19, 5], batch_size=3))
        some.verify()
        assert some.class_names == plain.class_names
        for name, values in plain.read([5, 0, 19, 5]).items():
            np.testing.assert_array_equal(some.read(range(4))[name], values)
        with pytest.raises(IndexError):
            copy_crops(plain, tmp_path / "none", [20])


def tiny_clip(folder: Path) -> str:
    """A small model that open_clip knows by name from now on."""
    import open_clip

    config = {
        "embed_dim": 48,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "head_width": 32, "patch_size": 16},
        "text_cfg": {"context_length": 8, "vocab_size": 99, "width": 32, "heads": 2, "layers": 1},
    }
    (folder / "segpaste-tiny.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    return "segpaste-tiny"


def random_model(library: str, folder: Path) -> tuple[str, torch.nn.Module]:
    torch.manual_seed(5)
    if library == "torchvision":
        from torchvision import models

        return "shufflenet_v2_x0_5", models.get_model("shufflenet_v2_x0_5", weights=None)
    if library == "timm":
        import timm

        return "test_vit", timm.create_model("test_vit", pretrained=False)
    import open_clip

    return (name := tiny_clip(folder)), open_clip.create_model(name)


class TestModels:
    @pytest.mark.parametrize("library", ["torchvision", "timm", "open_clip"])
    def test_weights_from_a_file(self, library: str, plain: Any, tmp_path: Path) -> None:
        name, model = random_model(library, tmp_path)
        weights = tmp_path / "weights.pt"
        torch.save({"state_dict": model.state_dict()}, weights)
        columns = plain.read(range(4))
        alphas = columns["alpha"].copy()
        alphas[3] = False
        vectors = make_embedder(f"{library}:{name}", weights)(columns["image"], alphas)
        assert vectors.shape == (4, 256)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0], atol=1e-5)
        assert len({vector.tobytes() for vector in vectors}) == 4
        background = np.where(alphas, columns["image"], 255 - columns["image"])
        np.testing.assert_array_equal(make_embedder(f"{library}:{name}", weights)(background, alphas), vectors)
        with torch.no_grad():  # other weights are other embeddings
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        torch.save(model.state_dict(), weights)
        other = make_embedder(f"{library}:{name}", weights)(columns["image"], alphas)
        assert (np.abs(other - vectors)[:3].max(1) > 1e-3).all()

    def test_features_are_those_before_the_last_layer(self, plain: Any, tmp_path: Path) -> None:
        """Against timm's own; what the model sees is the whole crop where alpha is all of it, and square."""
        name, model = random_model("timm", tmp_path)
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        image = plain.read([0])["image"][:, :, :53]
        got = make_embedder(f"timm:{name}", tmp_path / "weights.pt")(image, np.ones((1, 1, 53, 53), bool))
        pixels = (torch.from_numpy(image) / 255 - 0.5) / 0.5
        pixels = torch.nn.functional.interpolate(pixels, (160, 160), mode="bilinear", antialias=True)
        with torch.no_grad():
            features = model.eval().forward_head(model.forward_features(pixels), pre_logits=True)[0]
        wanted = np.zeros(256, np.float32)
        wanted[: len(features)] = features / features.norm()
        np.testing.assert_allclose(got[0], wanted, atol=1e-5)

    def test_projection_keeps_angles(self) -> None:
        features = np.random.default_rng(0).normal(size=(40, 2048)).astype(np.float32)
        features[1::2] += features[::2] * np.linspace(0, 3, 20)[:, None]
        short = projected(features)
        long = features / np.linalg.norm(features, axis=1, keepdims=True)
        np.testing.assert_allclose((short[::2] * short[1::2]).sum(1), (long[::2] * long[1::2]).sum(1), atol=0.2)
        few = projected(features[:, :100])
        np.testing.assert_allclose(few[:, :100] @ few[:, :100].T, few @ few.T, atol=1e-6)
        assert not few[:, 100:].any()

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("colours", None, "expected statistics, torchvision:NAME"),
            ("timm:", None, "got 'timm:'"),
            ("timm:hf_hub:someone/model", b"", "got 'timm:hf_hub:someone/model'"),
            ("statistics", b"", "expected no weights"),
            ("timm:test_vit", None, "expected a file of weights, since nothing is downloaded"),
            ("timm:test_vit", b"no weights", "expected weights saved by torch.save or safetensors"),
            ("timm:test_vit", [1], "expected a state_dict, names and tensors"),
            ("timm:test_vit", {"norm.weight": torch.zeros(3)}, "weights of timm:test_vit, got weights that differ in"),
            ("timm:no_such_model", {}, "timm:no_such_model: expected a model of timm.list_models"),
            ("torchvision:no_such_model", {}, "torchvision:no_such_model: expected a model of torchvision.models"),
            ("open_clip:no_such_model", {}, "open_clip:no_such_model: expected a model of open_clip"),
        ],
    )
    def test_bad_names_and_weights(self, name: str, content: Any, words: str, tmp_path: Path) -> None:
        weights = tmp_path / "weights.pt"
        if isinstance(content, bytes):
            weights.write_bytes(content)
        elif content is not None:
            torch.save(content, weights)
        with pytest.raises(ValueError, match=words):
            make_embedder(name, weights if content is not None else None)

    @pytest.mark.parametrize("device", ["nowhere", "cuda:99", "meta:x"])
    def test_a_device_that_is_not_here(self, device: str, tmp_path: Path) -> None:
        torch.save({}, tmp_path / "weights.pt")
        with pytest.raises(ValueError, match=f"device: expected an available device, .* got '{device}'"):
            make_embedder("torchvision:resnet18", tmp_path / "weights.pt", device)
        with pytest.raises(ValueError, match="statistics: expected no device, since it runs on the CPU"):
            make_embedder("statistics", device=device)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"none\.pt: expected a file of weights, found none"):
            make_embedder("torchvision:resnet18", tmp_path / "none.pt")


def clusters(num: int, num_groups: int, noise: float, seed: int = 0) -> NDArray[np.float16]:
    """Vectors around a few directions, of any length; some are zero."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(num_groups, 256))
    vectors = centres[rng.integers(0, num_groups, num)] + noise * rng.normal(size=(num, 256))
    vectors *= rng.uniform(0.2, 2, (num, 1))
    vectors[rng.random(num) < 0.05] = 0
    return vectors.astype(np.float16)


def unit64(vectors: NDArray[np.float16]) -> NDArray[np.float64]:
    rows = vectors.astype(np.float64)
    lengths = np.sqrt((rows**2).sum(1))
    return rows / np.where(lengths > 0, lengths, 1)[:, None]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    ids = np.random.default_rng(8).choice([0, 1, 3], 160, p=[0.7, 0.2, 0.1])
    path = tmp_path_factory.mktemp("embedded") / "bank"
    return write_bank(
        path, ids.tolist(), names="abcde", size=(1, 1), embeddings=clusters(160, 25, 0.14), image_ids=list(range(160))
    )


class TestPrototypes:
    def test_against_numpy(self, embedded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("segpaste.bank.embed.similarity._BLOCK", 33)
        rows, classes = unit64(embedded.read(range(160))["embedding"]), embedded.crop_class_ids()
        got = class_prototypes(embedded)
        assert got.shape == (5, 256)
        for c in (0, 1, 3):
            mean = rows[classes == c].mean(0)
            np.testing.assert_allclose(got[c], mean / np.sqrt((mean**2).sum()), atol=1e-6)
        assert not got[[2, 4]].any()

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_as_a_predicate(self, num_workers: int, embedded: Any) -> None:
        similar = SimilarToPrototype(embedded, 0.1)
        rows, classes = unit64(embedded.read(range(160))["embedding"]), embedded.crop_class_ids()
        wanted = (rows * similar.prototypes[classes]).sum(1) >= 0.1
        np.testing.assert_array_equal(similar.accept(embedded.read(range(160), similar.reads)), wanted)
        assert 0.2 < wanted.mean() < 0.9
        loader = create_bank_dataloader(embedded, batch_size=50, predicate=similar, num_workers=num_workers)
        drawn = [crop for step in loader for crop in step.crop_idx.flatten().tolist()]
        assert wanted[drawn].all()
        assert sum(loader.stats.num_rejected) > 0

    def test_bad_values(self, embedded: Any, plain: Any) -> None:
        with pytest.raises(ValueError, match="min_similarity <= 1, got 2"):
            SimilarToPrototype(embedded, 2)
        with pytest.raises(ValueError, match=r"expected prototypes \[5, 256\], got \[4, 256\]"):
            SimilarToPrototype(embedded, 0.5, np.zeros((4, 256), np.float32))
        for ask in (class_prototypes, near_duplicates, lambda bank: SimilarToPrototype(bank, 0.5)):
            with pytest.raises(BankError, match="expected a bank with embeddings"):
                ask(plain)


def reference_duplicates(vectors: NDArray[np.float64], classes: NDArray[np.int64], threshold: float) -> list[int]:
    """All pairs, one after the other."""
    kept: list[int] = []
    dropped = []
    for i in range(len(vectors)):
        if any(classes[i] == classes[j] and vectors[i] @ vectors[j] >= threshold for j in kept):
            dropped.append(i)
        else:
            kept.append(i)
    return dropped


class TestNearDuplicates:
    @pytest.mark.parametrize("block", [1, 7, 64, 1000])
    @pytest.mark.parametrize("threshold", [0.9, 0.97, 0.98])
    def test_against_all_pairs(self, block: int, threshold: float, embedded: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr("segpaste.bank.embed.similarity._BLOCK", block)
        vectors, classes = unit64(embedded.read(range(160))["embedding"]), embedded.crop_class_ids()
        similar = vectors @ vectors.T
        assert np.abs(similar - threshold).min() > 1e-6  # so that rounding decides nothing
        wanted = reference_duplicates(vectors, classes, threshold)
        assert 5 < len(wanted) < 155
        assert near_duplicates(embedded, threshold).tolist() == wanted

    def test_the_same_object_twice(self, plain: Any, tmp_path: Path) -> None:
        """A copy that was saved again counts too; other objects of its kind stay."""
        columns = plain.read(range(20))
        noise = np.random.default_rng(0).integers(-2, 3, columns["image"].shape)
        again = (columns["image"].astype(int) + noise).clip(0, 255).astype(np.uint8)
        images = [*columns["image"], *again[:10]]
        classes = [*plain.crop_class_ids().tolist(), *plain.crop_class_ids()[:10].tolist()]
        twice = write_bank(
            tmp_path / "twice", classes, size=SIZE, images=images, alphas=[*columns["alpha"], *columns["alpha"][:10]]
        )
        bank = open_bank(embed_bank(twice, tmp_path / "embedded"))
        found = near_duplicates(bank, 0.999)
        assert found.tolist() == list(range(20, 30))
        kept = open_bank(copy_crops(bank, tmp_path / "kept", np.setdiff1d(np.arange(30), found)))
        assert len(near_duplicates(kept, 0.999)) == 0

    @pytest.mark.parametrize("threshold", [0, -1, 1.1])
    def test_bad_values(self, threshold: float, embedded: Any) -> None:
        with pytest.raises(ValueError, match="0 < threshold <= 1"):
            near_duplicates(embedded, threshold)
