// Hyperlane's relayer delivers what it is told, and then what is dispatched, until it is stopped.
import { HyperlaneRelayer } from '@hyperlane-xyz/relayer';
import { coreOf } from './hyperlane-core.mjs';
import { input } from './input.mjs';

const relayer = new HyperlaneRelayer({ core: coreOf(input.chains, input.key) });
const lastAttempt = Date.now();
relayer.hydrate({ hook: {}, ism: {}, backlog: input.backlog.map((one) => ({ ...one, attempts: 0, lastAttempt })) });
relayer.start();
