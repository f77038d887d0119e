/** The traces page: the list of episodes, and one of them in the viewer when the address names it. */

import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { Viewer } from "../viewer/viewer.js";
import { EpisodesView } from "./view.js";

export default function Page() {
  const { place } = useNavigation();
  const opened = place.get("episode") !== "" || place.get("live") !== "";
  return opened ? html`<${Viewer} />` : html`<${EpisodesView} />`;
}
