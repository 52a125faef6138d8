-- The index's database, beside the relayer's. PostgreSQL's image runs this when it makes its data.
CREATE DATABASE waybill_index OWNER waybill;
