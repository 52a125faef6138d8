// Runs in the page before its own scripts: a wallet (EIP-1193) whose answers come from the test, announced as EIP-6963 has it, and as window.ethereum.
// Plain JavaScript, because what compiles the tests would add calls to functions that the page does not have.

const provider = {
  request: async (request) => {
    const answer = await window.testWalletRequest(request);
    if ("error" in answer) throw Object.assign(new Error(answer.error.message), answer.error);
    return answer.result;
  },
};
const info = { uuid: "8d4c9d3e-0000-4000-8000-000000000001", name: "Test wallet", icon: "data:,", rdns: "test.wallet" };
window.ethereum = provider;
window.addEventListener("eip6963:requestProvider", () => {
  window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: Object.freeze({ info, provider }) }));
});
