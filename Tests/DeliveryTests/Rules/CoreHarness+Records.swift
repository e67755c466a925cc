import Delivery

/// Records that the core receives.
extension CoreHarness {
    /// Receives records as one batch, at the next offsets.
    func receive(_ records: String..., partition partitionIndex: UInt32? = nil) {
        for record in records { receiveOne(record, partition: partitionIndex ?? commandsPartition) }
        endBatch()
    }

    func register(_ record: String) {
        receiveOne(record, partition: registrationsPartition)
        endBatch()
    }

    func unregister(key: String?) {
        receiveOne(nil, key: key, partition: registrationsPartition)
        endBatch()
    }

    func receiveOne(
        _ value: String?,
        key: String? = "key",
        partition partitionIndex: UInt32,
        offset: Int64? = nil,
        recordTimestampMilliseconds: Int64 = -1,
        trace: String = ""
    ) {
        let offset = offset ?? nextOffsets[partitionIndex, default: 0]
        nextOffsets[partitionIndex] = offset + 1
        Array((key ?? "").utf8)
            .withUnsafeBytes { keyBytes in
                Array((value ?? "").utf8)
                    .withUnsafeBytes { valueBytes in
                        var record = IncomingRecord(
                            partitionIndex: partitionIndex,
                            offset: offset,
                            timestampMilliseconds: recordTimestampMilliseconds,
                            key: key == nil ? nil : keyBytes,
                            value: value == nil ? nil : valueBytes
                        )
                        Array(trace.utf8)
                            .withUnsafeBytes { trace in
                                record.trace = trace
                                delivery.receive(record, now: now)
                            }
                    }
            }
    }

    func endBatch() {
        delivery.endBatch(now: now)
        collectActions()
    }
}
