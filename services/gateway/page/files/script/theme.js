// Theme: light, dark, or the system's; the choice stays in this browser.

const NAME = "outrider-theme";

function apply(theme) {
  document.documentElement.dataset.theme = theme;
}

/** Follows the field that chooses the theme. */
export function followTheme(field) {
  field.value = document.documentElement.dataset.theme;
  field.addEventListener("change", () => {
    localStorage.setItem(NAME, field.value);
    apply(field.value);
  });
}

apply(localStorage.getItem(NAME) ?? "system"); // at once: the page is not painted before
