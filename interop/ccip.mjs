// CCIP's SDK executes the first message of a transaction manually: of 1.6 with a proof that it computes from both
// chains, of 2.0 with what CCIP's API has.
import { CCIPAPIClient, EVMChain, SELECTORS, calculateManualExecProof } from '@chainlink/ccip-sdk';
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
const result = { messageId, version: request.lane.version };
let execution;
if (input.api) {
  execution = await new CCIPAPIClient(input.api, { logger: quiet }).getExecutionInput(messageId);
} else {
  const { offRamp } = input;
  const verifications = await destination.getVerifications({ offRamp, request });
  const batch = await source.getMessagesInBatch(request, verifications.report);
  const { merkleRoot } = verifications.report;
  Object.assign(result, calculateManualExecProof(batch, request.lane, messageId, merkleRoot, { logger: quiet }));
  execution = { offRamp, ...(await source.getExecutionInput({ request, verifications })) };
}
const { offRamp, ...executionInput } = execution;
const wallet = new Wallet(input.key, destination.provider);
const executed = await destination.execute({ offRamp, input: executionInput, wallet, gasLimit: input.gasLimit });
answer({ ...result, offRamp, transaction: executed.log.transactionHash, state: executed.receipt.state });
