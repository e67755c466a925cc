import LiveActivity
import Redis

/// The kind of a call. It decides how the call's reply is read.
enum AudienceCallKind: UInt8, BitwiseCopyable {
    case admit, settle, newestState, claim, checkpoint, finish, directory, page
    // The steps of an append (`EntryAppender`): send a member's entry to its page; if the page refuses it, read the
    // segment's list of pages; make or rearrange the page.
    case append, readDirectoryForAppend, arrange
}

/// A call that has no reply yet.
struct AudienceSessionCall: BitwiseCopyable {
    var tag: UInt64
    var kind: AudienceCallKind
    /// For `append`, `readDirectoryForAppend` and `arrange`: the slot of the member's entry in ``EntryAppendTable``.
    var appendSlot: UInt16 = 0
}

/// The audience store's part of one connection. It writes calls, collects entries and checkpoints into Redis commands,
/// and reads the replies.
final class AudienceSession: RedisSession {
    typealias Bytes = UnsafeRawBufferPointer

    var scripts: [String] { AudienceScript.luaSources }
    let entryAppender: EntryAppender
    /// The calls that have no reply yet, oldest first.
    var calls: CallQueue<AudienceSessionCall>
    /// The slots (``EntryAppendTable``) of entries that are not written yet. The session writes these entries before a
    /// call of any other kind, so that Redis replies in the order of ``calls``.
    private let collectedSlots: UnsafeMutableBufferPointer<UInt16>
    private var collectedSlotCount = 0
    /// Checkpoints that are not written yet. The session writes them before a call of any other kind, so that Redis
    /// replies in the order of ``calls``.
    private var checkpoints: CheckpointBatch

    /// - Parameter configuration: the configuration of the connection. It limits the outstanding calls and
    ///   the calls of one Redis command.
    init(configuration: RedisConfiguration, entryAppender: EntryAppender) {
        calls = CallQueue(capacity: configuration.outstandingCallsMax)
        collectedSlots = .allocate(capacity: configuration.callsPerCommandMax)
        checkpoints = CheckpointBatch(callsMax: configuration.callsPerCommandMax)
        self.entryAppender = entryAppender
    }

    deinit {
        collectedSlots.deallocate()
    }

    // MARK: - Entries that are appended to pages

    /// Collects the entry in this slot of ``EntryAppendTable`` for a Redis command that is written at the end of the
    /// turn at the latest.
    func collectEntry(_ slot: UInt16, on connection: RedisConnection) -> IssueOutcome {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        flushCheckpoints(on: connection)
        collectedSlots.initializeElement(at: collectedSlotCount, to: slot)
        collectedSlotCount += 1
        calls.append(AudienceSessionCall(tag: 0, kind: .append, appendSlot: slot))
        connection.appendCall(isWritten: false)
        if collectedSlotCount == collectedSlots.count { flush(on: connection) }
        return .issued
    }

    func flush(on connection: RedisConnection) {
        flushAppends(on: connection)
        flushCheckpoints(on: connection)
    }

    private func flushAppends(on connection: RedisConnection) {
        guard collectedSlotCount > 0 else { return }
        let count = collectedSlotCount
        collectedSlotCount = 0
        let overhead = RedisCommandWriter.argumentOverheadBytes
        let bytesMax =
            ScriptPrefixes.bytesPerPrefix + 3 * overhead
            + count * (AudienceStoreKey.bytesMax + MemberEntryFormat.bytesMax + 2 * overhead)
        connection.write(callCount: count, bytesMax: bytesMax) { room in
            var writer = RedisCommandWriter(room, argumentCount: ScriptPrefixes.argumentCount + 1 + 2 * count)
            writer.writeVerbatim(connection.scriptPrefixes[AudienceScript.append.rawValue])
            writer.writeArgument(number: count)
            for slot in collectedSlots[..<count] {
                writer.writePageKey(
                    entryAppender.appendTable.hashTag(slot),
                    entryAppender.appendTable[slot].bounds.lowerBound
                )
            }
            for slot in collectedSlots[..<count] { writer.writeArgument(entryAppender.appendTable.entry(slot)) }
            return writer.count
        }
    }

    /// Calls the script `arrange` for the page of the entry in this slot. The script makes the page if it is missing.
    /// Otherwise it renews the page's expiry, and shortens or splits a page that is too long.
    func arrangePage(ofAppend slot: UInt16, on connection: RedisConnection) -> IssueOutcome {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        let hashTag = entryAppender.appendTable.hashTag(slot)
        let bounds = entryAppender.appendTable[slot].bounds
        let isDevice = entryAppender.appendTable[slot].isDevice
        let keyCount = bounds.splitPosition == nil ? 2 : 3
        write(
            AudienceSessionCall(tag: 0, kind: .arrange, appendSlot: slot),
            argumentCount: ScriptPrefixes.argumentCount + 1 + keyCount + 4,
            bytesMax: ScriptPrefixes.bytesPerPrefix + 3 * AudienceStoreKey.bytesMax + 64,
            on: connection
        ) { writer in
            writer.writeVerbatim(connection.scriptPrefixes[AudienceScript.arrange.rawValue])
            writer.writeArgument(number: keyCount)
            writer.writeArgument(count: hashTag.count + 1) {
                $0.writeVerbatim(hashTag)
                $0.writeByte(AudienceStoreKey.directoryLetter)
            }
            writer.writePageKey(hashTag, bounds.lowerBound)
            if let splitPosition = bounds.splitPosition { writer.writePageKey(hashTag, splitPosition) }
            writer.writeArgument(bound: bounds.lowerBound)
            writer.writeArgument(bound: bounds.nextLowerBound)
            if let splitPosition = bounds.splitPosition {
                writer.writeArgument(bound: splitPosition)
            } else {
                writer.writeEmptyArgument()
            }
            writer.writeArgument(letter: UInt8(ascii: isDevice ? "1" : "0"))
        }
        return .issued
    }

    // MARK: - Checkpoints

    /// Collects a checkpoint for a Redis command that is written at the end of the turn at the latest.
    func collectCheckpoint(
        _ range: SegmentRange,
        claim: UInt64,
        text: Bytes,
        tag: UInt64,
        key: Bytes,
        on connection: RedisConnection
    ) -> IssueOutcome {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        flushAppends(on: connection)
        if !checkpoints.hasRoom(for: text, of: key) { flushCheckpoints(on: connection) }
        checkpoints.append(key, range, claim: claim, text: text)
        calls.append(AudienceSessionCall(tag: tag, kind: .checkpoint))
        connection.appendCall(isWritten: false)
        if checkpoints.isFull { flushCheckpoints(on: connection) }
        return .issued
    }

    private func flushCheckpoints(on connection: RedisConnection) {
        let count = checkpoints.count
        guard count > 0 else { return }
        connection.write(callCount: count, bytesMax: ScriptPrefixes.bytesPerPrefix + checkpoints.commandBytesMax) {
            room in
            var writer = RedisCommandWriter(
                room,
                argumentCount: ScriptPrefixes.argumentCount + checkpoints.argumentCount
            )
            writer.writeVerbatim(connection.scriptPrefixes[AudienceScript.audience.rawValue])
            checkpoints.write(to: &writer)
            return writer.count
        }
        checkpoints.removeAll()
    }

    // MARK: - Single calls

    /// Reads a page or a directory.
    func get(_ key: Bytes, _ call: AudienceSessionCall, on connection: RedisConnection) -> IssueOutcome {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        write(call, argumentCount: 2, bytesMax: key.count, on: connection) { writer in
            writer.writeArgument(count: 3) { $0.writeVerbatim(Bytes("GET" as StaticString)) }
            writer.writeArgument(key)
        }
        return .issued
    }

    /// Writes a call about the audience's record: a Redis command that runs the script `audience`. Checkpoints
    /// (`collectCheckpoint`), directories and pages (`get`) and entries (`collectEntry`) have methods of their own.
    func issueRecordCall(_ call: AudienceCall<Bytes>, key: Bytes, on connection: RedisConnection) -> IssueOutcome {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        let (kind, argumentCount, argumentBytesMax) = call.operation.recordCallLayout
        write(
            AudienceSessionCall(tag: call.tag, kind: kind),
            argumentCount: ScriptPrefixes.argumentCount + 2 + argumentCount,
            bytesMax: ScriptPrefixes.bytesPerPrefix + key.count + RedisCommandWriter.operationBytesMax
                + argumentBytesMax,
            on: connection
        ) { writer in
            writer.writeVerbatim(connection.scriptPrefixes[AudienceScript.audience.rawValue])
            writer.writeArgument(letter: UInt8(ascii: "1"))
            writer.writeArgument(key)
            writer.writeRecordArguments(call.operation)
        }
        return .issued
    }

    /// - Parameter bytesMax: the maximum length of all arguments together, without the bytes that RESP adds to each.
    private func write(
        _ call: AudienceSessionCall,
        argumentCount: Int,
        bytesMax: Int,
        on connection: RedisConnection,
        _ arguments: (inout RedisCommandWriter) -> Void
    ) {
        flush(on: connection)
        let overhead = (argumentCount + 1) * RedisCommandWriter.argumentOverheadBytes
        connection.write(callCount: 0, bytesMax: bytesMax + overhead) { room in
            var writer = RedisCommandWriter(room, argumentCount: argumentCount)
            arguments(&writer)
            return writer.count
        }
        calls.append(call)
        connection.appendCall(isWritten: true)
    }

    // MARK: - Failures

    func discardCollectedCalls() {
        collectedSlotCount = 0
        checkpoints.removeAll()
    }

    func handleFailure(_ error: RedisError) {
        guard let call = calls.removeOldest() else { preconditionFailure("a call failed that was not issued") }
        switch call.kind {
        case .append, .readDirectoryForAppend, .arrange: entryAppender.failAppend(call.appendSlot, error)
        default: entryAppender.handler?.audienceCallFailed(tag: call.tag, error: error)
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate init(_ text: StaticString) { self.init(start: text.utf8Start, count: text.utf8CodeUnitCount) }
}
