import { onchainTable, primaryKey } from "ponder";

export const messageIdCreated = onchainTable(
  "message_id_created",
  (t) => ({
    blockNumber: t.integer().notNull(),
    logIndex: t.integer().notNull(),
    blockHash: t.hex().notNull(),
    transactionHash: t.hex().notNull(),
    messageId: t.hex().notNull(),
    sender: t.hex().notNull(),
    nonce: t.bigint().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.blockNumber, table.logIndex] }) }),
);

export const messageRouted = onchainTable(
  "message_routed",
  (t) => ({
    blockNumber: t.integer().notNull(),
    logIndex: t.integer().notNull(),
    blockHash: t.hex().notNull(),
    transactionHash: t.hex().notNull(),
    messageId: t.hex().notNull(),
    destinationChain: t.bigint().notNull(),
    retriable: t.boolean().notNull(),
    gmps: t.integer().notNull(),
    envelope: t.hex().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.blockNumber, table.logIndex] }) }),
);

export const messageReceived = onchainTable(
  "message_received",
  (t) => ({
    blockNumber: t.integer().notNull(),
    logIndex: t.integer().notNull(),
    blockHash: t.hex().notNull(),
    transactionHash: t.hex().notNull(),
    messageId: t.hex().notNull(),
    sourceChain: t.bigint().notNull(),
    gmp: t.integer().notNull(),
    receipts: t.integer().notNull(),
    quorum: t.integer().notNull(),
    payloadHash: t.hex().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.blockNumber, table.logIndex] }) }),
);

export const messageExecuted = onchainTable(
  "message_executed",
  (t) => ({
    blockNumber: t.integer().notNull(),
    logIndex: t.integer().notNull(),
    blockHash: t.hex().notNull(),
    transactionHash: t.hex().notNull(),
    messageId: t.hex().notNull(),
    sourceChain: t.bigint().notNull(),
    recipient: t.hex().notNull(),
    payloadHash: t.hex().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.blockNumber, table.logIndex] }) }),
);
