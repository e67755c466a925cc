public import LiveActivity

extension AudienceCall {
    /// Returns the same call with `transform` applied to all its bytes, such as ids and tokens. A caller uses it to
    /// copy borrowed bytes, so that it can keep the call, and later to borrow the copies.
    public func map<Other>(_ transform: (Bytes) -> Other) -> AudienceCall<Other> {
        AudienceCall<Other>(
            tag: tag,
            app: transform(app),
            audience: audience,
            operation: operation.map(transform)
        )
    }
}

extension AudienceCall.Operation {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> AudienceCall<Other>.Operation {
        switch self {
        case .admit(let admission): .admit(admission.map(transform))
        case .settle(let version): .settle(version: version)
        case .readNewestState: .readNewestState
        case .claim(let range, let claim): .claim(range, claim: claim)
        case .checkpoint(let range, let claim, let text): .checkpoint(range, claim: claim, text: transform(text))
        case .finishRange(let range, let version, let counts, let times):
            .finishRange(range, version: version, counts, times)
        case .finishBroadcast(let broadcast, let version, let outcome, let times):
            .finishBroadcast(broadcast, version: version, outcome, times)
        case .readDirectory(let segment): .readDirectory(segment: segment)
        case .readPage(let segment, let lowerBound): .readPage(segment: segment, lowerBound: lowerBound)
        case .append(let entry): .append(entry.map(transform))
        }
    }
}

extension AudienceAdmission {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> AudienceAdmission<Other> {
        AudienceAdmission<Other>(
            version: version,
            digest: digest,
            pace: pace,
            isEnd: isEnd,
            isStart: isStart,
            requestsHighPriority: requestsHighPriority,
            mayUseReserve: mayUseReserve,
            rangeCount: rangeCount,
            body: transform(body),
            expirationSeconds: expirationSeconds
        )
    }
}

extension MemberEntry {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> MemberEntry<Other> {
        replacingBytes(identifier: transform(identifier), token: transform(token))
    }

    /// Returns a copy of this entry with its id and token in another form, such as arrays instead of pointers.
    func replacingBytes<Other>(identifier: Other, token: Other) -> MemberEntry<Other> {
        MemberEntry<Other>(
            location: location,
            isLeaving: isLeaving,
            kind: kind,
            environment: environment,
            allowsFrequentUpdates: allowsFrequentUpdates,
            supportsChannels: supportsChannels,
            changedAtMilliseconds: changedAtMilliseconds,
            identifier: identifier,
            token: token
        )
    }
}

extension AudienceCall<[UInt8]> {
    /// Passes the call to `body`, with bytes that are valid while `body` runs.
    public func withBorrowedBytes<Result>(_ body: (AudienceCall<UnsafeRawBufferPointer>) -> Result) -> Result {
        // All parts are copied into one buffer, so that one call of `withUnsafeBytes` is enough.
        var bytes: [UInt8] = []
        let ranges = map { part in
            bytes += part
            return bytes.count - part.count..<bytes.count
        }
        return bytes.withUnsafeBytes { memory in
            body(ranges.map { UnsafeRawBufferPointer(rebasing: memory[$0]) })
        }
    }
}

extension AudienceReply {
    /// Returns the same reply with `transform` applied to its bytes.
    public func map<Other>(_ transform: (Bytes) -> Other) -> AudienceReply<Other> {
        var reply = AudienceReply<Other>(verdict)
        reply.waitMilliseconds = waitMilliseconds
        reply.grant = grant
        reply.channels = channels
        reply.broadcastCounts = broadcastCounts
        reply.newestVersion = newestVersion
        reply.timestamp = timestamp
        reply.expirationSeconds = expirationSeconds
        reply.isEnd = isEnd
        reply.unfinishedPartCount = unfinishedPartCount
        reply.totals = totals
        reply.responseTimes = responseTimes
        reply.bytes = bytes.map(transform)
        return reply
    }
}

extension AudienceReply<[UInt8]> {
    /// Passes the reply to `body`, with bytes that are valid while `body` runs.
    public func withBorrowedBytes<Result>(_ body: (AudienceReply<UnsafeRawBufferPointer>) -> Result) -> Result {
        (bytes ?? []).withUnsafeBytes { memory in body(map { _ in memory }) }
    }
}
