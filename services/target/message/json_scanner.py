"""JsonScanner: where a JSON value ends in a text that is still growing."""

import re

_OUTSIDE = re.compile(r'[{}\[\]"]|[^\s\w+.,:-]')  # what nests, and what stands nowhere in JSON but in its strings
_MOST_DEPTH = 64
_INSIDE = re.compile(r'["\\]')


class JsonScanner:
    """Follows the nesting of an object or a list, each character once."""

    def __init__(self, start: int) -> None:
        """The value begins at `start`."""
        self.start = start
        self.position = start
        """Up to which the text may be a JSON value."""
        self._depth = 0
        self._is_inside = False

    def end(self, text: str) -> int | None:
        """Where the value ends in a text, if it does; the text of each call begins with that of the one before.

        Raises ValueError for what can be no JSON, or nests too deeply.
        """
        while found := (_INSIDE if self._is_inside else _OUTSIDE).search(text, self.position):
            if found.group() == "\\":
                if found.end() == len(text):  # what it escapes is not known yet
                    self.position = found.start()
                    return None
                self.position = found.end() + 1
                continue
            self.position = found.start()
            self._take(found.group())
            self.position = found.end()
            if not self._depth:
                return self.position
        self.position = len(text)
        return None

    def _take(self, character: str) -> None:
        match character:
            case '"':
                self._is_inside = not self._is_inside
            case "{" | "[" if self._depth < _MOST_DEPTH:
                self._depth += 1
            case "}" | "]":
                self._depth -= 1
            case _:
                raise ValueError(f"{character!r} stands where it cannot")
