// CCIP's SDK executes the first message of a transaction manually, with the verifiers' results from CCIP's API.
import { CCIPAPIClient, EVMChain, SELECTORS } from '@chainlink/ccip-sdk';
import { Wallet } from 'ethers6';
import { answer, input, quiet } from './input.mjs';

// CCIP's registry has no chains of a devnet.
for (const { name, chainId, selector } of [input.source, input.destination]) {
  SELECTORS[chainId] = { name, selector: BigInt(selector), family: 'EVM', network_type: 'TESTNET' };
}
const [source, destination] = await Promise.all(
  [input.source, input.destination].map(({ rpc }) => EVMChain.fromUrl(rpc, { apiClient: null, logger: quiet })),
);
const [request] = await source.getMessagesInTx(input.transaction);
const { messageId } = request.message;
const api = new CCIPAPIClient(input.api, { logger: quiet });
const { offRamp, ...executionInput } = await api.getExecutionInput(messageId);
const wallet = new Wallet(input.key, destination.provider);
const executed = await destination.execute({ offRamp, input: executionInput, wallet });
answer({
  messageId,
  version: request.lane.version,
  offRamp,
  transaction: executed.log.transactionHash,
  state: executed.receipt.state,
});
