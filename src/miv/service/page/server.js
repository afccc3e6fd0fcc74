/* Requests to the server of this page, and to nothing else. */
import { askForToken } from "/page/token.js";

const KEY = "miv-token";
let token = null;
try { token = sessionStorage.getItem(KEY); } catch { /* it is then asked for again after a reload */ }

export class ServerProblem extends Error {
  constructor(message, status, wait = null) {
    super(message);
    this.status = status;
    this.wait = wait; // seconds, if the server says when to try again
  }
}

async function once(address, options) {
  const headers = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (token) headers.Authorization = "Bearer " + token;
  try {
    return await fetch(address, { ...options, headers, credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerProblem("The server does not answer. Check that it is running, then try again.", 0);
  }
}

async function problemOf(response) {
  let message = "";
  try { message = (await response.json()).error.message; } catch { /* not from the service itself: a proxy, for instance */ }
  const wait = Number(response.headers.get("Retry-After")) || null;
  return new ServerProblem(message || "The server answered " + response.status + ".", response.status, wait);
}

/* A 401 asks for the token and tries again, until it is right or the visitor gives up. */
export async function request(address, options = {}) {
  let response = await once(address, options);
  while (response.status === 401) {
    const problem = await problemOf(response);
    const given = await askForToken(token !== null);
    if (given === null) throw problem;
    token = given;
    response = await once(address, options);
    if (response.status !== 401) try { sessionStorage.setItem(KEY, token); } catch { /* kept in memory only */ }
  }
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

export const post = (address, content, signal) => request(address, { method: "POST", body: JSON.stringify(content), signal });
