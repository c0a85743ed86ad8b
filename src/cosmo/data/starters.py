"""Small examples of each kind of input, written as files: something to run first and to replace then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from cosmo._core.files import write_whole
from cosmo.data.glyphs import write_glyph_images

__all__ = ["STARTERS", "write_starter"]

#: What each kind of example is about.
STARTERS = {
    "features": "fruit by measurements; described by attributes in groups",
    "text": "requests to a small shop; described by a sentence each",
    "images": "pictures of letters; described by attributes in groups",
}

# Colour, size, skin and taste of each fruit; the last three have no training rows.
_GROUPS = {
    "colour": ("green", "yellow", "orange", "red", "blue"),
    "size": ("small", "medium", "large"),
    "skin": ("smooth", "rough"),
    "taste": ("sweet", "sour"),
}
_FRUIT = {
    "gooseberry": "green small smooth sour",
    "lime": "green medium rough sour",
    "honeydew": "green large smooth sweet",
    "mirabelle": "yellow small smooth sweet",
    "lemon": "yellow medium rough sour",
    "banana": "yellow medium smooth sweet",
    "pineapple": "yellow large rough sweet",
    "kumquat": "orange small smooth sour",
    "orange": "orange medium rough sweet",
    "pumpkin": "orange large rough sweet",
    "cherry": "red small smooth sweet",
    "raspberry": "red small rough sour",
    "plum": "blue medium smooth sweet",
    "blueberry": "blue small smooth sweet",
    "apple": "red medium smooth sweet",
    "papaya": "orange large smooth sweet",
    "sloe": "blue small smooth sour",
}
_N_FRUIT_UNSEEN = 3
# What the instruments show for each attribute: red, green and blue light, diameter, gloss, sugar, acid.
_INSTRUMENTS = ("red_light", "green_light", "blue_light", "diameter", "gloss", "sugar", "acid")
_READINGS = {
    "green": (0.3, 0.8, 0.3, 0, 0, 0, 0),
    "yellow": (0.9, 0.8, 0.2, 0, 0, 0, 0),
    "orange": (0.9, 0.5, 0.1, 0, 0, 0, 0),
    "red": (0.8, 0.1, 0.2, 0, 0, 0, 0),
    "blue": (0.2, 0.2, 0.7, 0, 0, 0, 0),
    "small": (0, 0, 0, 0.2, 0, 0, 0),
    "medium": (0, 0, 0, 0.7, 0, 0, 0),
    "large": (0, 0, 0, 1.4, 0, 0, 0),
    "smooth": (0, 0, 0, 0, 0.9, 0, 0),
    "rough": (0, 0, 0, 0, 0.2, 0, 0),
    "sweet": (0, 0, 0, 0, 0, 0.9, 0.2),
    "sour": (0, 0, 0, 0, 0, 0.3, 0.8),
}
_NOISE = 0.12

# Intent: description, training requests, test requests.
_REQUESTS: dict[str, tuple[str, str, str]] = {
    "track_order": (
        "The customer asks where a parcel is or when an order will arrive.",
        "where is my parcel | has my order left the warehouse yet | when will the lamp i ordered get here | "
        "the tracking page shows nothing | my package should have come on tuesday | "
        "how many more days until delivery | can you tell me which van has my box | "
        "it has been two weeks and nothing came",
        "any news about my shipment | when does my order arrive | is the parcel on its way",
    ),
    "return_item": (
        "The customer wants to send an article back and get the money for it.",
        "the shoes are too small and i want to send them back | how do i return a jacket | "
        "i changed my mind and would like a refund | where do i get a return label | "
        "can i bring the vase back to the store | i do not like the colour so take it back please | "
        "how long do i have to give something back | refund me for the kettle i am returning",
        "i want my money back for this coat | please let me send the blanket back | "
        "what do i do to return a gift",
    ),
    "cancel_order": (
        "The customer wants to stop an order before it is sent.",
        "please cancel my order | i ordered by mistake and want to stop it | do not ship the chairs | "
        "can i still call off my purchase from this morning | remove my order before it goes out | "
        "i no longer need the table so drop the order | stop order number 5512 | "
        "undo what i bought an hour ago",
        "cancel the purchase i just made | i want to withdraw my order | please do not send what i ordered",
    ),
    "damaged_item": (
        "The customer reports that an article came broken or does not work.",
        "the mug arrived in pieces | my new radio does not turn on | there is a crack in the mirror | "
        "one leg of the stool is broken | the box was wet and the books are ruined | "
        "the zip of the bag fell off on the first day | what you delivered is faulty | "
        "the glass was smashed when i opened the parcel",
        "the plate is broken | the clock you sent me does not work | it came with a big scratch",
    ),
    "opening_hours": (
        "The customer asks when the shop is open.",
        "when do you open on saturday | are you open on sundays | what time does the shop close today | "
        "is the store open on new year's day | until when can i come in this evening | "
        "do you close over lunch | opening times please | how early can i visit you on monday",
        "at what time do you close | are you open tomorrow | when can i come to the shop",
    ),
    "payment_methods": (
        "The customer asks in which ways it is possible to pay.",
        "do you take credit cards | can i pay by bank transfer | is cash on delivery possible | "
        "which ways of paying do you accept | can i pay in three instalments | "
        "do you accept mobile payments | may i settle the bill by invoice | is it possible to pay in dollars",
        "how can i pay | can i use my debit card | do you take cash",
    ),
    "product_stock": (
        "The customer asks whether an article is available or will be again.",
        "do you still have the blue teapot | when will the wool blanket be back | "
        "is the desk available in oak | how many of these candles are left | "
        "the site says sold out but do you have one more | will you get new hammocks this spring | "
        "is size forty in stock | have you got any garden chairs left",
        "is this lamp available | do you have the red bowl in stock | when is the shelf back in store",
    ),
    "change_address": (
        "The customer wants a parcel to go to another address.",
        "i have moved so please send it to my new flat | change the delivery address of my order | "
        "i typed the wrong street | can the parcel go to my office instead | update my postal code please | "
        "send it to my neighbour at number nine | my house number is missing in the order | "
        "deliver to my parents rather than to me",
        "please change where my parcel goes | i gave you the wrong address | ship it to a different street",
    ),
    "gift_wrapping": (
        "The customer asks for an article to be wrapped as a present.",
        "",
        "can you wrap it as a present | i would like gift paper and a ribbon around it | "
        "please pack the necklace nicely because it is a birthday gift | do you offer gift wrapping | "
        "could you put a greeting card in and wrap the box | wrap the toys for christmas please",
    ),
    "speak_to_human": (
        "The customer wants to talk to a person of the staff.",
        "",
        "let me talk to a real person | can somebody call me | i want to speak to your manager | "
        "connect me with an employee please | is there a human i can chat with | "
        "put me through to your staff",
    ),
}

_PROJECTS = {
    "features": """\
# A project: `cosmo check`, `cosmo fit` and `cosmo evaluate` read it. Paths are relative to this file.

kind = "features"                  # features, text or images

samples = "samples.csv"            # also .tsv, .parquet, .jsonl, .npz (arrays X and y)
label = "fruit"                    # column of the class
# features = ["sugar", "acid"]     # columns to learn from, or how their names begin; all numbers otherwise

descriptions = "descriptions.csv"  # a row for each class, with samples or without; here group::attribute

test = "test.csv"                  # labelled samples for `cosmo evaluate`; or, without such a file:
# test_share = 0.2                 # hold back this share of the samples
# hold_back = ["plum", "lime"]     # and all samples of these classes, which then play unseen

# seen = "logistic"                # expert for classes with samples, see `cosmo experts`
# unseen = "eszsl"                 # expert for classes by description; chosen by their kind if left out
# gate = "confidence"              # tells samples of the ones from those of the others
# seed = 0
""",
    "text": """\
# A project: `cosmo check`, `cosmo fit` and `cosmo evaluate` read it. Paths are relative to this file.

kind = "text"                       # features, text or images

samples = "samples.csv"             # also .tsv, .parquet, .jsonl
text = "text"                       # column of the text
label = "intent"                    # column of the class

descriptions = "descriptions.json"  # a sentence for each class, with samples or without

test = "test.csv"                   # labelled samples for `cosmo evaluate`; or, without such a file:
# test_share = 0.2                  # hold back this share of the samples
# hold_back = ["product_stock"]     # and all samples of these classes, which then play unseen

# encoder = "minilm"                # or sentence:NAME-OR-FOLDER, a model of sentence-transformers
# seen = "logistic-unit"            # expert for classes with samples, see `cosmo experts`
# unseen = "similarity"             # expert for classes by description
# gate = "confidence"               # tells samples of the ones from those of the others
# seed = 0
""",
    "images": """\
# A project: `cosmo check`, `cosmo fit` and `cosmo evaluate` read it. Paths are relative to this file.

kind = "images"                    # features, text or images

samples = "train"                  # a folder with a folder for each class, or a table of paths and labels

descriptions = "descriptions.csv"  # a row for each class, with samples or without; here group::attribute

test = "test"                      # labelled samples for `cosmo evaluate`; or, without such a folder:
# test_share = 0.2                 # hold back this share of the samples
# hold_back = ["small-e"]          # and all samples of these classes, which then play unseen

# encoder = "efficientnet-lite0"   # or timm:NAME, torchvision:NAME, open_clip:NAME/PRETRAINED
# seen = "logistic"                # expert for classes with samples, see `cosmo experts`
# unseen = "eszsl"                 # expert for classes by description; chosen by their kind if left out
# gate = "confidence"              # tells samples of the ones from those of the others
# seed = 0
""",
}


def write_starter(kind: str, folder: str | Path) -> list[str]:
    """Write a project file and the example that it names; nothing that is there is overwritten.

    Parameters
    ----------
    kind : {"features", "text", "images"}
    folder : path
        Made if need be.

    Returns
    -------
    list of str
        Names of what was written, the project file first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_starter("text", folder)
    ['cosmo.toml', 'samples.csv', 'test.csv', 'descriptions.json']
    """
    if kind not in STARTERS:
        raise ValueError(f"kind must be one of {', '.join(STARTERS)}, got {kind!r}")
    folder = Path(folder)
    if kind == "images":
        names = ["train", "test", "descriptions.csv"]
        _refuse(folder, names)
        write_glyph_images(folder, n_classes=24, samples_per_class=16, image_size=48)
    else:
        files = _fruit() if kind == "features" else _shop()
        names = [*files]
        _refuse(folder, names)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_whole(folder / name, content.encode())
    write_whole(folder / "cosmo.toml", _PROJECTS[kind].encode())
    return ["cosmo.toml", *names]


def _refuse(folder: Path, names: list[str]) -> None:
    for name in ["cosmo.toml", *names]:
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} is there already; name another folder")


def _shop() -> dict[str, str]:
    def table(part: int) -> str:
        rows = [
            (request.strip(), intent)
            for intent, entry in _REQUESTS.items()
            for request in entry[part].split("|")
            if request.strip()
        ]
        return pd.DataFrame(rows, columns=["text", "intent"]).to_csv(index=False)

    descriptions = {intent: entry[0] for intent, entry in _REQUESTS.items()}
    return {
        "samples.csv": table(1),
        "test.csv": table(2),
        "descriptions.json": json.dumps(descriptions, indent=2) + "\n",
    }


def _fruit(n_train: int = 20, n_test: int = 8) -> dict[str, str]:
    columns = [f"{group}::{name}" for group, names in _GROUPS.items() for name in names]
    names = [*_FRUIT]
    has = [[int(column.partition("::")[2] in _FRUIT[fruit].split()) for column in columns] for fruit in names]
    centres = np.array(
        [np.sum([_READINGS[word] for word in _FRUIT[fruit].split()], axis=0) for fruit in names]
    )
    rng = np.random.default_rng(0)

    def table(rows: int, fruit: list[str]) -> str:
        which = np.repeat([names.index(one) for one in fruit], rows)
        readings = centres[which] + _NOISE * rng.normal(size=(len(which), len(_INSTRUMENTS)))
        frame = pd.DataFrame(readings.round(3), columns=list(_INSTRUMENTS))
        return frame.assign(fruit=np.array(names)[which]).to_csv(index=False)

    return {
        "samples.csv": table(n_train, names[:-_N_FRUIT_UNSEEN]),
        "test.csv": table(n_test, names),
        "descriptions.csv": pd.DataFrame(has, index=pd.Index(names, name="fruit"), columns=columns).to_csv(),
    }
