/* Takes a photograph: with the camera in the page, or with the camera app of a phone. */
import { button, make } from "/page/elements.js";

export async function photograph(withApp) {
  if (!navigator.mediaDevices?.getUserMedia) return withApp();
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    if (error.name === "NotAllowedError") throw new Error("The browser does not let this page use the camera. Allow it in the address bar, or choose a file.");
    return withApp();
  }
  return new Promise((done) => {
    const video = make("video", { autoplay: true, playsinline: true, "aria-label": "What the camera sees" });
    video.muted = true;
    video.srcObject = stream;
    const take = button("Take the picture", async () => {
      const canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
      canvas.getContext("2d").drawImage(video, 0, 0);
      const taken = await new Promise((made) => canvas.toBlob(made, "image/png"));
      done(new File([taken], "photograph.png", { type: "image/png" }));
      dialog.close();
    }, { class: "main", disabled: true });
    video.addEventListener("loadeddata", () => { take.disabled = false; take.focus(); });
    const dialog = make("dialog", { class: "camera", "aria-labelledby": "camera-heading" },
      make("h2", { id: "camera-heading", text: "Photograph" }), video,
      make("p", { class: "row" }, take, button("Cancel", () => dialog.close())));
    dialog.addEventListener("close", () => {
      for (const track of stream.getTracks()) track.stop();
      dialog.remove();
      done(null); // has no effect after a picture
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
