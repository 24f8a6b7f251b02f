// Sets the chosen theme before the page is painted.
(() => {
  try {
    const theme = localStorage.getItem("inturn-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* storage may be off */ }
})();
