"""XmlValue: reads the bare text of an argument up to its end mark, in a text that is still growing."""

from services.target.message.text_marks import after_space, first_mark, may_become
from services.target.message.xml_form import XmlForm

_MOST_HELD = 256  # characters after a mark that show whether it ends the value


class XmlValue:
    """The value is `text[start:end]` so far, without the newlines that belong to its marks."""

    def __init__(self, form: XmlForm, start: int) -> None:
        """The text after the mark before the value begins at `start`."""
        self._form = form
        self.start = self.end = start
        self.after: int | None = None
        """The end of the mark after the value, once it is whole."""
        self._is_begun = False
        self._searched = start  # up to here there is no end of the value
        self._after_mark = 0  # up to here white space follows the mark that may end the value

    def read(self, text: str) -> None:
        """Read on; `text` must begin with the previous call's text."""
        if not self._is_begun:
            if len(text) == self.start:
                return
            self._is_begun = True
            if self._form.has_lines and text[self.start] == "\n":
                self.start += 1
        end = self._find_end(text)
        is_newline = self._form.has_lines and end > self.start and text[end - 1] == "\n"  # perhaps the mark's
        self.end = end - 1 if is_newline else end

    def _find_end(self, text: str) -> int:
        """The end of the text that is certain to come before the end mark."""
        mark = self._form.value_end
        while True:
            start, found = first_mark(text, (mark,), is_end=False, start=self._searched)
            end = start + len(mark)
            is_end = None if found is None else self._is_end(text, start, end)
            if is_end:
                self.after = end
            if is_end is not False:
                self._searched = max(start, self._searched)
                return start
            self._searched = start + 1

    def _is_end(self, text: str, start: int, end: int) -> bool | None:
        """Whether a mark ends the value rather than being part of it; None if more text must show it.

        It does after a newline, as it is written, or where the call continues after it.
        """
        if self._form.has_lines and text.startswith("\n", start - 1):
            return True
        self._after_mark = after_space(text, max(self._after_mark, end))
        following = (self._form.before_key, self._form.end)
        if text.startswith(following, self._after_mark):
            return True
        return None if may_become(text[self._after_mark : self._after_mark + _MOST_HELD], following) else False
