(function () {
  var root = document.documentElement;
  function theme() {
    try {
      var chosen = localStorage.getItem("theme");
      if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
      else delete root.dataset.theme;
    } catch (error) {}
  }
  theme();
  addEventListener("storage", theme);
  document.addEventListener("click", function (event) {
    var link = event.target.closest && event.target.closest("a[data-airflow]");
    if (!link || parent === window || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    try {
      parent.history.pushState(null, "", link.href);
      parent.dispatchEvent(new PopStateEvent("popstate", { state: null }));
      event.preventDefault();
    } catch (error) {}
  });
})();
