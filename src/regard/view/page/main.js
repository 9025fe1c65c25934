// The page of the server: the whole window, numbers over HTTP.
import { start } from "./app.js";
import { HttpSource } from "./source.js";

start(document.getElementById("regard"), new HttpSource("api/"));
