/* Asks for the token that the server was started with. */
import { button, make } from "/page/elements.js";

let open = null; // requests that fail together share one question

export function askForToken(wasWrong) {
  open ??= new Promise((done) => {
    const field = make("input", { type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "token-note" });
    const note = wasWrong ? "That token was refused. Try again." : "This server was started with a token. It is kept only until you close this tab.";
    const form = make("form", { method: "dialog" },
      make("h2", { id: "token-heading", text: "Token" }),
      make("p", { id: "token-note", class: wasWrong ? "problem" : "note", text: note }),
      make("label", { class: "field" }, "Token of the server", field),
      make("p", { class: "row" }, make("button", { class: "main", text: "Continue", value: "given" }),
        button("Cancel", () => dialog.close(""))));
    const dialog = make("dialog", { "aria-labelledby": "token-heading" }, form);
    dialog.addEventListener("close", () => {
      open = null;
      dialog.remove();
      done(dialog.returnValue === "given" && field.value ? field.value.trim() : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
  return open;
}
