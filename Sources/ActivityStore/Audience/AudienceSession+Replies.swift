import Glibc
import LiveActivity
import Redis

/// Reads the replies to calls about audiences.
extension AudienceSession {
    /// Handles the reply to the `count` oldest calls, which were sent as one Redis command.
    func handleReply(_ reply: Reply, toCalls count: Int, from reader: ReplyReader, on connection: RedisConnection) {
        switch outstandingCalls.oldest?.kind {
        case .append: return handleAppendReply(reply, callCount: count, from: reader, on: connection)
        case .checkpoint: return handleCheckpointReply(reply, callCount: count, from: reader, on: connection)
        default: break
        }
        // The result is not needed: it is false only if the connection was closed, and nothing has closed it since this
        // reply arrived.
        _ = connection.completeOldestCall(from: reader)
        guard let call = outstandingCalls.oldest else { return }
        switch call.kind {
        case .readDirectoryForAppend, .arrange:
            guard let directory = reply.bytesIfStringOrNull else { return handleProtocolViolation(on: connection) }
            connection.resetReconnectPause()
            _ = outstandingCalls.removeOldest()
            entryAppender.receiveDirectory(directory, call.appendIndex)
        default:
            guard let audienceReply = parseReply(reply, of: call.kind, from: reader) else {
                return handleProtocolViolation(on: connection)
            }
            connection.resetReconnectPause()
            _ = outstandingCalls.removeOldest()
            entryAppender.handler?.audienceStoreReplied(tag: call.tag, audienceReply)
        }
    }

    /// Handles the reply of the script `append`: an array that says for each entry what became of it.
    private func handleAppendReply(
        _ reply: Reply,
        callCount count: Int,
        from reader: ReplyReader,
        on connection: RedisConnection
    ) {
        let hasAllElements = reply.kind == .array(count: count)
        for index in 0..<count {
            // The previous element may have closed the connection: by an error, or because a handler closed the store.
            // Then all remaining calls have failed already.
            guard connection.completeOldestCall(from: reader) else { return }
            guard hasAllElements else { return handleProtocolViolation(on: connection) }
            let element = reader.element(index)
            if element.kind == .error {
                let error = RedisError(reply: element.bytes)
                handleFailureOfOldestCall(error)
                if error.endsConnection { connection.disconnect(error) }
            } else if element.kind == .integer, let result = EntryAppendResult(rawValue: element.integer) {
                connection.resetReconnectPause()
                if let call = outstandingCalls.removeOldest() {
                    entryAppender.continueAppend(call.appendIndex, after: result)
                }
            } else {
                return handleProtocolViolation(on: connection)
            }
        }
    }

    /// What became of a checkpoint. The script's reply has the index of a verdict in this array.
    private static let checkpointVerdicts: [AudienceVerdict] = [.claimedByAnother, .settled, .claimLost]

    /// Handles the reply to checkpoints: the newest admitted version, and for each checkpoint whether it was recorded.
    private func handleCheckpointReply(
        _ reply: Reply,
        callCount count: Int,
        from reader: ReplyReader,
        on connection: RedisConnection
    ) {
        let hasAllElements = reply.kind == .array(count: count + 1)
        for index in 0..<count {
            guard connection.completeOldestCall(from: reader) else { return }
            guard hasAllElements, let verdictNumber = reader.readInteger(index + 1, in: 0...2),
                let audienceReply = replyWithNewestVersion(
                    AudienceReply(Self.checkpointVerdicts[Int(verdictNumber)]),
                    at: 0,
                    from: reader
                )
            else { return handleProtocolViolation(on: connection) }
            connection.resetReconnectPause()
            if let call = outstandingCalls.removeOldest() {
                entryAppender.handler?.audienceStoreReplied(tag: call.tag, audienceReply)
            }
        }
    }

    /// Fails the oldest call and closes the connection, because a reply does not fit this call. Replies and calls may
    /// be out of step, and then later calls would get wrong replies too.
    private func handleProtocolViolation(on connection: RedisConnection) {
        let error = RedisError(.protocolViolation, "a reply of Redis does not fit its call")
        handleFailureOfOldestCall(error)
        connection.disconnect(error)
    }

    private func parseReply(_ reply: Reply, of kind: AudienceCallKind, from reader: ReplyReader) -> AudienceReply<
        Bytes
    >? {
        switch kind {
        case .admit: parseAdmission(reply, from: reader)
        case .settle: reply.isWord("settled") ? AudienceReply(.settled) : nil
        case .readNewestState: parseNewestState(reply, from: reader)
        case .claim: parseClaim(reply, from: reader)
        case .finish: parseFinish(reply, from: reader)
        case .readDirectory: reply.bytesIfStringOrNull.map { AudienceReply(.directory, bytes: $0) }
        case .readPage: reply.bytesIfStringOrNull.map { AudienceReply(.page, bytes: $0) }
        case .checkpoint, .append, .readDirectoryForAppend, .arrange: nil
        }
    }

    /// Reads the reply to `admit`: a grant with the audience's channels, a wait, or the verdict that refuses the
    /// command. Nil if the reply has another form.
    private func parseAdmission(_ reply: Reply, from reader: ReplyReader) -> AudienceReply<Bytes>? {
        for (word, verdict) in Self.verdictWords where reply.isWord(word) { return AudienceReply(verdict) }
        if reply.elementCount == 2, reader.element(0).isWord("wait"),
            let waitMilliseconds = reader.readInteger(1, in: 1...Int64.max)
        {
            var audienceReply = AudienceReply<Bytes>(.wait)
            audienceReply.waitMilliseconds = waitMilliseconds
            return audienceReply
        }
        let count = reply.elementCount
        guard count == 6 || count == 8, reader.element(0).isWord("send"),
            let timestamp = reader.readInteger(1, in: 0...Limits.timestampMax),
            let priority = reader.readInteger(2, in: 5...10),
            let frequentUpdatesPriority = reader.readInteger(3, in: 5...10),
            let demoted = reader.readInteger(4, in: 0...1),
            let rangeCount = reader.readInteger(5, in: 1...Int64(MemberLocation.segmentCount)),
            SegmentRange(index: 0, rangeCount: Int(rangeCount)) != nil
        else { return nil }
        var audienceReply = AudienceReply<Bytes>(.send)
        audienceReply.grant = AudienceGrant(
            timestamp: timestamp,
            priority: UInt8(priority),
            frequentUpdatesPriority: UInt8(frequentUpdatesPriority),
            isDemoted: demoted == 1,
            rangeCount: UInt16(rangeCount)
        )
        guard count == 8 else { return audienceReply }
        guard let production = reader.element(6).bytesIfStringOrNull,
            let sandbox = reader.element(7).bytesIfStringOrNull
        else {
            return nil
        }
        audienceReply.channels.production = AudienceChannel(field: production, environment: .production)
        audienceReply.channels.sandbox = AudienceChannel(field: sandbox, environment: .sandbox)
        return audienceReply
    }

    private static let verdictWords: [(StaticString, AudienceVerdict)] = [
        ("superseded", .superseded), ("duplicate", .duplicate), ("unchanged", .unchanged), ("ended", .ended),
    ]

    /// Reads the state for a member that joins; nil if the reply has another form.
    private func parseNewestState(_ reply: Reply, from reader: ReplyReader) -> AudienceReply<Bytes>? {
        if reply.isWord("unknown") { return AudienceReply(.unknown) }
        guard reply.elementCount == 6, reader.element(0).isWord("send"),
            let version = StoredVersion.read(reader.element(1).bytes),
            let timestamp = reader.readInteger(2, in: 0...Limits.timestampMax), reader.element(3).bytes.count == 8,
            let isEnd = reader.readInteger(4, in: 0...1), reader.element(5).kind == .string
        else { return nil }
        var audienceReply = AudienceReply<Bytes>(.send, bytes: reader.element(5).bytes)
        audienceReply.newestVersion = version
        audienceReply.timestamp = timestamp
        audienceReply.expirationSeconds = Int64(bitPattern: LittleEndian.read(reader.element(3).bytes))
        audienceReply.isEnd = isEnd == 1
        return audienceReply
    }

    /// Reads the reply to the claim of a range: the newest version and the range's last checkpoint. Nil if the reply
    /// has another form.
    private func parseClaim(_ reply: Reply, from reader: ReplyReader) -> AudienceReply<Bytes>? {
        guard reply.elementCount == 3, reader.element(0).isWord("progress"), reader.element(2).kind == .string else {
            return nil
        }
        return replyWithNewestVersion(AudienceReply(.claimed, bytes: reader.element(2).bytes), at: 1, from: reader)
    }

    /// Returns `reply` with the newest admitted version, which it reads from the element at `index`. An empty element
    /// leaves `reply` without a version: none was admitted, or the newest one is a start. Nil if the element is
    /// malformed.
    private func replyWithNewestVersion(
        _ reply: AudienceReply<Bytes>,
        at index: Int,
        from reader: ReplyReader
    ) -> AudienceReply<Bytes>? {
        let element = reader.element(index)
        guard element.kind == .string else { return nil }
        if element.bytes.isEmpty { return reply }
        guard let version = StoredVersion.read(element.bytes) else { return nil }
        var reply = reply
        reply.newestVersion = version
        return reply
    }

    /// Reads the reply about a finished range or broadcast: how many ranges and broadcasts of its version are
    /// unfinished; if none is, also the version's totals. Nil if the reply has another form.
    private func parseFinish(_ reply: Reply, from reader: ReplyReader) -> AudienceReply<Bytes>? {
        guard reply.elementCount == 2 || reply.elementCount == 3, reader.element(0).isWord("finished"),
            let unfinishedPartCount = reader.readInteger(
                1,
                in: 0...Int64(MemberLocation.segmentCount + APNsEnvironment.allCases.count)
            ),
            (unfinishedPartCount == 0) == (reply.elementCount == 3)
        else { return nil }
        var audienceReply = AudienceReply<Bytes>(.finished)
        audienceReply.unfinishedPartCount = Int(unfinishedPartCount)
        if unfinishedPartCount == 0 {
            let bytes = reader.element(2).bytes
            let hasBroadcasts = bytes.count == StoredCounts.byteCount + StoredBroadcastCounts.byteCount
            let storedCounts =
                hasBroadcasts ? UnsafeRawBufferPointer(rebasing: bytes[..<StoredCounts.byteCount]) : bytes
            guard let (totals, times) = StoredCounts.read(storedCounts) else { return nil }
            audienceReply.totals = totals
            audienceReply.responseTimes = times
            if hasBroadcasts {
                audienceReply.broadcastCounts = StoredBroadcastCounts.readCounts(
                    UnsafeRawBufferPointer(rebasing: bytes[StoredCounts.byteCount...])
                )
            }
        }
        return audienceReply
    }
}

extension AudienceReply<UnsafeRawBufferPointer> {
    fileprivate init(_ verdict: AudienceVerdict, bytes: UnsafeRawBufferPointer) {
        self.init(verdict)
        self.bytes = bytes
    }
}

extension Reply {
    fileprivate func isWord(_ word: StaticString) -> Bool {
        guard kind == .string, bytes.count == word.utf8CodeUnitCount, let start = bytes.baseAddress else {
            return false
        }
        return memcmp(start, word.utf8Start, bytes.count) == 0
    }

    /// The bytes of a string reply; empty if the key does not exist; nil for any other reply.
    fileprivate var bytesIfStringOrNull: UnsafeRawBufferPointer? {
        switch kind {
        case .string: bytes
        case .null: UnsafeRawBufferPointer(start: nil, count: 0)
        default: nil
        }
    }
}

extension ReplyReader {
    fileprivate func readInteger(_ index: Int, in range: ClosedRange<Int64>) -> Int64? {
        let element = element(index)
        return element.kind == .integer && range.contains(element.integer) ? element.integer : nil
    }
}
