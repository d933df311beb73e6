"""The models among the files of a repository, and the one that is chosen."""

from __future__ import annotations

import pytest

from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.variants import RemoteFile, Variant, bits, choose, named, projectors, variants

GIB = 1 << 30


def files(**sizes: int) -> list[RemoteFile]:
    """By quantisation, in GiB."""
    return [RemoteFile(f"m-{quant}.gguf", size * GIB) for quant, size in sizes.items()]


def names(found: list[Variant]) -> list[tuple[str, ...]]:
    return [tuple(file.name for file in variant.files) for variant in found]


def test_files_become_models_with_all_their_parts() -> None:
    """Projectors, importance matrices and incomplete sets are no models; a folder may name the quantisation."""
    listed = ["Q8_0/m-00001-of-00002.gguf", "Q8_0/m-00002-of-00002.gguf", "m-UD-Q4_K_XL.gguf", "mmproj-F16.gguf"]
    listed += ["broken-00001-of-00003.gguf", "broken-00003-of-00003.gguf", "m.imatrix.gguf", "README.md"]
    found = variants([RemoteFile(name, 1) for name in listed])

    assert names(found) == [("Q8_0/m-00001-of-00002.gguf", "Q8_0/m-00002-of-00002.gguf"), ("m-UD-Q4_K_XL.gguf",)]
    assert [variant.quant for variant in found] == ["Q8_0", "UD-Q4_K_XL"]


def test_hostile_names_are_no_models() -> None:
    """They would leave the folder, hide, change the terminal, name a macro, or have no parts."""
    hostile = ["../m.gguf", "/m.gguf", ".m.gguf", "a/../m.gguf", "m\x1b[2J.gguf", "m\n.gguf"]
    hostile += ["m-00001-of-99999.gguf", "m-00001-of-00000.gguf", "m-${HOME}.gguf", "../m-00001-of-00001.gguf"]

    assert variants([RemoteFile(name, 1) for name in hostile]) == []


def test_the_best_format_of_a_projector_comes_first() -> None:
    """As where files are found on disk."""
    listed = [RemoteFile(f"mmproj-{quant}.gguf", 1) for quant in ("F32", "Q8_0", "BF16", "F16")]

    assert [file.quant for file in projectors(listed)] == ["F16", "BF16", "Q8_0", "F32"]


def test_a_quantisation_or_a_file_can_be_named() -> None:
    """Upper and lower case are the same in a quantisation."""
    found = variants(files(Q4_K_M=1, Q8_0=2))

    assert named(found, "q8_0", "a/b").quant == "Q8_0"
    assert named(found, "m-Q4_K_M.gguf", "a/b").quant == "Q4_K_M"


def test_a_name_that_does_not_exist_gets_the_nearest() -> None:
    """And the list of what there is."""
    found = variants(files(Q4_K_M=1, Q8_0=2))
    with pytest.raises(DownloadProblem, match=r'a/b has no .Q4_K_S.\. Did you mean "Q4_K_M"\? It has Q4_K_M, Q8_0'):
        named(found, "Q4_K_S", "a/b")


def test_two_models_of_one_quantisation_need_the_name_of_the_file() -> None:
    """hotseat does not guess between two different models."""
    found = variants([RemoteFile("small-Q8_0.gguf", 1), RemoteFile("large-Q8_0.gguf", 2)])
    with pytest.raises(DownloadProblem, match=r"name one file: small-Q8_0\.gguf, large-Q8_0\.gguf"):
        named(found, "Q8_0", "a/b")


@pytest.mark.parametrize(
    ("sizes", "memory", "chosen", "reason"),
    [
        ({"Q2_K": 2, "Q4_K_M": 4, "Q8_0": 8, "F16": 16}, 99, "Q4_K_M", "it is the usual choice, and it fits"),
        ({"Q2_K": 2, "Q4_K_M": 4, "Q8_0": 8}, 3, "Q2_K", "it is the best that fits; Q4_K_M would not"),
        ({"Q5_K_M": 5, "Q8_0": 8, "F16": 16}, 99, "Q8_0", "there is no Q4_K_M, and it fits"),
        ({"Q5_K_M": 5, "Q8_0": 8, "F16": 16}, 6, "Q5_K_M", "it is the best that fits; Q8_0 would not"),
        ({"BF16": 16, "F32": 32}, 99, "BF16", "there is no Q4_K_M, and it fits"),
        ({"Q8_0": 8}, 99, "Q8_0", "it is the only model of the repository"),
    ],
)
def test_the_usual_quantisation_or_the_best_that_fits(
    sizes: dict[str, int], memory: int, chosen: str, reason: str
) -> None:
    """The reason names what did not fit."""
    choice = choose(variants(files(**sizes)), lambda variant: variant.size <= memory * GIB, "a/b")

    assert (choice.variant.quant, choice.reason) == (chosen, reason)


def test_nothing_larger_than_what_does_not_fit_is_looked_at() -> None:
    """Each look may read megabytes from the server."""
    looked: list[str] = []

    def fits(variant: Variant) -> bool:
        looked.append(variant.quant)
        return False

    with pytest.raises(DownloadProblem, match=r"hotseat pull a/b:Q2_K"):
        choose(variants(files(Q2_K=2, Q4_K_M=4, Q6_K=6, Q8_0=8, F16=16)), fits, "a/b")

    assert looked == ["Q4_K_M", "Q2_K"]


@pytest.mark.parametrize(
    ("quant", "number"), [("IQ3_XXS", 3), ("UD-Q4_K_XL", 4), ("MXFP4_MOE", 4), ("BF16", 16), ("F32", 32), ("", 16)]
)
def test_bits_of_a_quantisation(quant: str, number: int) -> None:
    """An unknown one counts as unquantised."""
    assert bits(quant) == number
