import LiveActivity
import Redis

/// The kind of a call, which decides how the call's reply is read.
enum AudienceCallKind: UInt8, BitwiseCopyable {
    case admit, settle, readNewestState, claim, checkpoint, finish, readDirectory, readPage
    // The calls of an append (`EntryAppender`). `append` sends a member's entry to its page. If the page refuses the
    // entry, `readDirectoryForAppend` reads the segment's directory. `arrange` makes or rearranges the page.
    case append, readDirectoryForAppend, arrange
}

/// A call that has no reply yet.
struct AudienceSessionCall: BitwiseCopyable {
    var tag: UInt64
    var kind: AudienceCallKind
    /// For `append`, `readDirectoryForAppend` and `arrange`: the index of the member's entry in ``EntryAppendTable``.
    var appendIndex: UInt16 = 0
}

/// Writes the audience store's calls on one connection, and reads the replies. Several entries, or several checkpoints,
/// go into one Redis command.
final class AudienceSession: RedisSession {
    typealias Bytes = UnsafeRawBufferPointer

    var scripts: [String] { AudienceScript.luaSources }
    let entryAppender: EntryAppender
    /// The calls that have no reply yet, oldest first.
    var outstandingCalls: CallQueue<AudienceSessionCall>
    /// Entries that are not written yet, as indices of ``EntryAppendTable``. The session writes these entries before a
    /// call of any other kind, so that Redis replies in the order of ``outstandingCalls``.
    private let collectedAppendIndices: UnsafeMutableBufferPointer<UInt16>
    private var collectedAppendCount = 0
    /// Checkpoints that are not written yet. The session writes them before a call of any other kind, so that Redis
    /// replies in the order of ``outstandingCalls``.
    private var collectedCheckpoints: CheckpointBatch

    /// Makes the session of one connection.
    ///
    /// - Parameter configuration: the connection's configuration. It limits the outstanding calls, and the calls of one
    ///   Redis command.
    init(configuration: RedisConfiguration, entryAppender: EntryAppender) {
        outstandingCalls = CallQueue(capacity: configuration.outstandingCallsMax)
        collectedAppendIndices = .allocate(capacity: configuration.callsPerCommandMax)
        collectedCheckpoints = CheckpointBatch(callsMax: configuration.callsPerCommandMax)
        self.entryAppender = entryAppender
    }

    deinit {
        collectedAppendIndices.deallocate()
    }

    // MARK: - Entries that are appended to pages

    /// Collects the entry at this index of ``EntryAppendTable`` for a Redis command that is written at the end of the
    /// iteration at the latest.
    func collectEntry(_ index: UInt16, on connection: RedisConnection) -> IssueResult {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        flushCheckpoints(on: connection)
        collectedAppendIndices.initializeElement(at: collectedAppendCount, to: index)
        collectedAppendCount += 1
        outstandingCalls.append(AudienceSessionCall(tag: 0, kind: .append, appendIndex: index))
        connection.appendCall(isWritten: false)
        if collectedAppendCount == collectedAppendIndices.count { flush(on: connection) }
        return .issued
    }

    func flush(on connection: RedisConnection) {
        flushAppends(on: connection)
        flushCheckpoints(on: connection)
    }

    /// Writes all collected entries as one Redis command, which calls the script `append`.
    private func flushAppends(on connection: RedisConnection) {
        guard collectedAppendCount > 0 else { return }
        let count = collectedAppendCount
        collectedAppendCount = 0
        let overheadBytes = RedisCommandWriter.argumentOverheadBytes
        let bytesMax =
            ScriptCallPrefixes.bytesPerPrefix + 3 * overheadBytes
            + count * (AudienceStoreKey.bytesMax + MemberEntryFormat.bytesMax + 2 * overheadBytes)
        connection.write(callCount: count, bytesMax: bytesMax) { room in
            var writer = RedisCommandWriter(room, argumentCount: ScriptCallPrefixes.argumentsPerPrefix + 1 + 2 * count)
            writer.writeVerbatim(connection.scriptCallPrefixes[AudienceScript.append.rawValue])
            writer.writeArgument(number: count)
            for index in collectedAppendIndices[..<count] {
                writer.writePageKey(
                    entryAppender.appendTable.hashTag(index),
                    entryAppender.appendTable[index].bounds.lowerBound
                )
            }
            for index in collectedAppendIndices[..<count] {
                writer.writeArgument(entryAppender.appendTable.entry(index))
            }
            return writer.count
        }
    }

    /// Calls the script `arrange` for the page of the entry at this index of ``EntryAppendTable``. The script makes the
    /// page if it is missing. Otherwise it renews the page's expiry, and shortens or splits a page that is too long.
    func arrangePage(ofAppend index: UInt16, on connection: RedisConnection) -> IssueResult {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        let hashTag = entryAppender.appendTable.hashTag(index)
        let bounds = entryAppender.appendTable[index].bounds
        let isDevice = entryAppender.appendTable[index].isDevice
        let keyCount = bounds.splitPosition == nil ? 2 : 3
        write(
            AudienceSessionCall(tag: 0, kind: .arrange, appendIndex: index),
            argumentCount: ScriptCallPrefixes.argumentsPerPrefix + 1 + keyCount + 4,
            bytesMax: ScriptCallPrefixes.bytesPerPrefix + 3 * AudienceStoreKey.bytesMax + 64,
            on: connection
        ) { writer in
            writer.writeVerbatim(connection.scriptCallPrefixes[AudienceScript.arrange.rawValue])
            writer.writeArgument(number: keyCount)
            writer.writeArgument(byteCount: hashTag.count + 1) {
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

    /// Collects a checkpoint for a Redis command that is written at the end of the iteration at the latest.
    func collectCheckpoint(
        _ range: SegmentRange,
        claim: UInt64,
        text: Bytes,
        tag: UInt64,
        key: Bytes,
        on connection: RedisConnection
    ) -> IssueResult {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        flushAppends(on: connection)
        if !collectedCheckpoints.hasRoom(for: text, of: key) { flushCheckpoints(on: connection) }
        collectedCheckpoints.append(key, range, claim: claim, text: text)
        outstandingCalls.append(AudienceSessionCall(tag: tag, kind: .checkpoint))
        connection.appendCall(isWritten: false)
        if collectedCheckpoints.isFull { flushCheckpoints(on: connection) }
        return .issued
    }

    /// Writes all collected checkpoints as one Redis command, which calls the script `audience`.
    private func flushCheckpoints(on connection: RedisConnection) {
        let count = collectedCheckpoints.count
        guard count > 0 else { return }
        let bytesMax = ScriptCallPrefixes.bytesPerPrefix + collectedCheckpoints.commandBytesMax
        connection.write(callCount: count, bytesMax: bytesMax) { room in
            var writer = RedisCommandWriter(
                room,
                argumentCount: ScriptCallPrefixes.argumentsPerPrefix + collectedCheckpoints.argumentCount
            )
            writer.writeVerbatim(connection.scriptCallPrefixes[AudienceScript.audience.rawValue])
            collectedCheckpoints.write(to: &writer)
            return writer.count
        }
        collectedCheckpoints.removeAll()
    }

    // MARK: - Single calls

    /// Writes the Redis command that reads a page or a directory.
    func issueGet(_ key: Bytes, _ call: AudienceSessionCall, on connection: RedisConnection) -> IssueResult {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        write(call, argumentCount: 2, bytesMax: key.count, on: connection) { writer in
            writer.writeArgument(byteCount: 3) { $0.writeVerbatim(Bytes("GET" as StaticString)) }
            writer.writeArgument(key)
        }
        return .issued
    }

    /// Writes a call that the script `audience` performs on an audience's hash. A checkpoint is such a call too, but
    /// `collectCheckpoint` collects it for a later command.
    func issueHashCall(_ call: AudienceCall<Bytes>, key: Bytes, on connection: RedisConnection) -> IssueResult {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        let (kind, argumentCount, argumentBytesMax) = call.operation.scriptCallSize
        write(
            AudienceSessionCall(tag: call.tag, kind: kind),
            argumentCount: ScriptCallPrefixes.argumentsPerPrefix + 2 + argumentCount,
            bytesMax: ScriptCallPrefixes.bytesPerPrefix + key.count + RedisCommandWriter.operationNameBytesMax
                + argumentBytesMax,
            on: connection
        ) { writer in
            writer.writeVerbatim(connection.scriptCallPrefixes[AudienceScript.audience.rawValue])
            writer.writeArgument(letter: UInt8(ascii: "1"))
            writer.writeArgument(key)
            writer.writeHashArguments(call.operation)
        }
        return .issued
    }

    /// Writes a call as a Redis command of its own, after all calls that were collected.
    ///
    /// - Parameter bytesMax: the maximum length of all arguments together, without RESP's additions.
    private func write(
        _ call: AudienceSessionCall,
        argumentCount: Int,
        bytesMax: Int,
        on connection: RedisConnection,
        _ arguments: (inout RedisCommandWriter) -> Void
    ) {
        flush(on: connection)
        let overheadBytes = (argumentCount + 1) * RedisCommandWriter.argumentOverheadBytes
        connection.write(callCount: 0, bytesMax: bytesMax + overheadBytes) { room in
            var writer = RedisCommandWriter(room, argumentCount: argumentCount)
            arguments(&writer)
            return writer.count
        }
        outstandingCalls.append(call)
        connection.appendCall(isWritten: true)
    }

    // MARK: - Failures

    func discardCollectedCalls() {
        collectedAppendCount = 0
        collectedCheckpoints.removeAll()
    }

    func handleFailureOfOldestCall(_ error: RedisError) {
        guard let call = outstandingCalls.removeOldest() else {
            preconditionFailure("a call failed that was not issued")
        }
        switch call.kind {
        case .append, .readDirectoryForAppend, .arrange: entryAppender.failAppend(call.appendIndex, error)
        default: entryAppender.handler?.audienceCallFailed(tag: call.tag, error: error)
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate init(_ text: StaticString) { self.init(start: text.utf8Start, count: text.utf8CodeUnitCount) }
}
