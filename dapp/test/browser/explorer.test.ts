/**
 * The explorer in Chromium, over a devnet with the real GMPs, the relayer and the index. One stage for all of it, since bringing it up
 * takes longer than most of the tests; they run in the order in which they stand here. This file takes the longest of all,
 * and files begin in the order of their paths: from here it begins early.
 */

import "./stage.ts";
import "./messages.ts";
import "./decisions.ts";
import "./every-page.ts";
