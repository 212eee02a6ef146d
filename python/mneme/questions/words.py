"""Words, names and values that are drawn."""

from __future__ import annotations

from collections.abc import Callable, MutableSet

from ..errors import MnemeError
from .draws import Draws

NOUNS = tuple(
    """acorn almond anchor apple apron arrow badge banjo barley barn basin basket beacon bean bear beaver beetle bell bench
    berry bishop blanket boat bonnet bottle bowl bracket brick bridge broom brush bucket button cabbage cabin cactus camel
    candle canoe carpet carrot castle cedar chain chair cherry chimney chisel clock cloud clover coat cobra collar comet
    compass copper coral cork cotton cradle crane cricket crown cushion dagger daisy desk dolphin donkey door dragon drum
    duck eagle easel elbow engine falcon feather fence fern ferry fiddle field finch flag flame flute forest fork fountain
    fox garlic gate giant ginger glacier glove goat goose grape guitar hammer harbor harp hat hazel hedge helmet heron
    hill hinge honey hood hoof horn island ivory ivy jacket jar jewel jungle kettle kite kitten ladder lamp lantern lark
    leaf lemon lentil lily lizard locket lotus magnet maple marble market meadow melon mill mirror mitten mountain
    mushroom mustard needle nest nettle nutmeg oak oar olive onion orchard otter oven owl oyster paddle palace panda
    parrot pasture peach pear pebble pencil pepper piano pickle pigeon pillow pine planet plum pocket pony poplar pumpkin
    quail quilt rabbit radish raft raven ribbon river robin rocket saddle sail salmon sandal sardine saucer shell shovel
    silver sparrow spoon stove sugar swan table thimble thistle ticket tiger timber towel tractor trumpet tulip tunnel
    turnip turtle umbrella valley velvet violin wagon walnut whale wheat whistle willow window wolf zebra""".split()
)
ADJECTIVES = tuple(
    """able amber ample ancient arctic autumn awake azure bald bitter blank blue blunt bold brave breezy brief bright brisk
    broad broken bronze brown bumpy busy calm careful cheap chilly civil clean clear clever cloudy coarse cold common cosy
    crimson crisp curious curly damp dark dear deep dense distant double dry dull dusty eager early easy elder empty even
    faint fair famous fancy fast feeble fierce final firm flat fond formal fragile frank fresh frosty full funny fuzzy
    gentle glad gloomy golden grand gray great green handy happy hardy heavy hollow honest huge humble hungry idle inner
    jolly keen kind large late lazy lean light little lively lonely long loose loud lucky mellow merry mild modern modest
    narrow neat nimble noble noisy odd old open orange outer pale patient plain polite proper proud pure purple quick
    quiet rapid rare ready red rich robust rough round royal rusty salty scarlet secret sharp shiny short shy silent
    simple sleepy slim slow small smooth sober soft solid sour spare steady steep stern stiff still stout strange strict
    strong sturdy subtle sunny sweet swift tall tame tender thick thin tidy tiny tired tough true upper useful vast violet
    vivid warm wary weary white wide wild wise witty wooden yellow young""".split()
)
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_TRIES = 1000


def pair(draws: Draws) -> str:
    """An adjective and a noun, "quiet-harbor", one of 47,970."""
    return f"{draws.pick(ADJECTIVES)}-{draws.pick(NOUNS)}"


def made_up(draws: Draws) -> str:
    """One of 343,000 words of three syllables of two letters, "tavoro"."""
    return "".join(draws.pick(letters) for letters in (_CONSONANTS, _VOWELS) * 3)


def misspelt(draws: Draws, word: str) -> tuple[str, set[str]]:
    """A made-up word with another letter in one place, and all made-up words that differ from it in at most one letter."""
    place = draws.below(len(word))
    other = draws.pick([one for one in _letters(word[place]) if one != word[place]])
    wrong = word[:place] + other + word[place + 1 :]
    near = {wrong[:i] + one + wrong[i + 1 :] for i in range(len(wrong)) for one in _letters(wrong[i])}
    return wrong, near


def _letters(letter: str) -> str:
    return _VOWELS if letter in _VOWELS else _CONSONANTS


def number(draws: Draws) -> str:
    """Seven digits, the first of which is not 0."""
    return str(1_000_000 + draws.below(9_000_000))


def phone_number(draws: Draws) -> str:
    return f"{200 + draws.below(800)}-{draws.below(10_000):04}"


def uuid(draws: Draws) -> str:
    """A UUID of version 4: 122 random bits."""
    digits = f"{draws.bits():016x}{draws.bits():016x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class UsedUpError(MnemeError):
    """A text needs more words than can be made up."""


def new(draw: Callable[[Draws], str], draws: Draws, used: MutableSet[str]) -> str:
    """A word that is not among those used, which it joins. Errors: UsedUpError after a thousand draws of used ones."""
    for _ in range(_TRIES):
        if (word := draw(draws)) not in used:
            used.add(word)
            return word
    raise UsedUpError("all words that can be made up are in use")
