/**
 * The explorer in Chromium, over a devnet with the real GMPs, the relayer and the index. One stage for all of it, since bringing it up
 * takes longer than most of the tests; they run in the order in which they stand here.
 */

import "./explorer/stage.ts";
import "./explorer/messages.ts";
import "./explorer/decisions.ts";
import "./explorer/every-page.ts";
