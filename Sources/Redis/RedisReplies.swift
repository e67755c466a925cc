import Glibc

extension RedisConnection {
    /// Takes the reply to the oldest outstanding call.
    func take(_ reply: Reply, of call: OutstandingCall, from reader: ReplyReader, _ handler: (any RedisHandler)?) {
        guard let script = call.kind.script else { return take(reply, ofOwn: call.kind, from: reader, handler) }
        if reply.kind == .error {
            return takeError(RedisError(reply: reply.bytes), of: call, script, handler)
        }
        switch script {
        case .settle:
            guard reply.kind == .integer, reply.integer == 0 || reply.integer == 1 else {
                return violated(call, handler)
            }
            noteSuccess()
            handler?.settled(tag: call.tag, tokenRetired: reply.integer == 1)
        case .admit:
            switch admitReply(reply, of: call.kind) {
            case .violation:
                violated(call, handler)
            case .malformedContent:
                let error = RedisError(.unknown, "what Redis holds under a key is not what Causeway writes")
                handler?.failed(tag: call.tag, script: script, error: error)
            case .reply(let admitReply):
                noteSuccess()
                handler?.admitted(tag: call.tag, reply: admitReply)
            }
        }
    }

    /// Takes the reply to the `count` oldest outstanding calls, which left as one command.
    func take(_ reply: Reply, ofBatch count: Int, from reader: ReplyReader, _ handler: (any RedisHandler)?) {
        if reply.kind == .error { return takeError(RedisError(reply: reply.bytes), ofBatch: count, handler) }
        let isWhole = reply.kind == .array(count: count)
        for index in 0..<count {
            // The handler may close the connection, or a reply end it: then the rest has failed already.
            guard reader === self.reader, let call = outstanding.removeOldest() else { return }
            if isWhole { take(reader.element(index), of: call, from: reader, handler) } else { violated(call, handler) }
        }
    }

    private func takeError(_ error: RedisError, ofBatch count: Int, _ handler: (any RedisHandler)?) {
        let reader = reader
        var followsReload = false
        if error.code == .noScript && !hasReloaded { reloadScripts() }
        for _ in 0..<count {
            guard reader === self.reader, let call = outstanding.removeOldest() else { return }
            followsReload = call.followsReload
            if let script = call.kind.script { handler?.failed(tag: call.tag, script: script, error: error) }
        }
        guard reader === self.reader else { return }
        if error.endsConnection || error.code == .noScript && followsReload { lose(error) }
    }

    private func takeError(
        _ error: RedisError,
        of call: OutstandingCall,
        _ script: ScriptKind,
        _ handler: (any RedisHandler)?
    ) {
        let isForgotten = error.code == .noScript
        if isForgotten && !hasReloaded { reloadScripts() }
        handler?.failed(tag: call.tag, script: script, error: error)
        if error.endsConnection || isForgotten && call.followsReload { lose(error) }
    }

    /// The reply is not one that this call can have: replies and calls are out of step, and no later one can be trusted.
    private func violated(_ call: OutstandingCall, _ handler: (any RedisHandler)?) {
        let error = RedisError(.protocolViolation, "a reply of Redis does not fit its call")
        if let script = call.kind.script { handler?.failed(tag: call.tag, script: script, error: error) }
        lose(error)
    }

    private enum AdmitReading {
        case reply(AdmitReply)
        /// It is a reply to such a call, but what the script has passed on out of Redis is not what the scripts write.
        case malformedContent
        /// It is not a reply that a call of this kind can have.
        case violation
    }

    private func admitReply(_ reply: Reply, of kind: CallKind) -> AdmitReading {
        guard reply.kind == .string, let verdict = Verdict(beginning: reply.bytes, among: kind.verdicts) else {
            return .violation
        }
        var result = AdmitReply(verdict: verdict)
        let rest = UnsafeRawBufferPointer(rebasing: reply.bytes[verdict.word.utf8CodeUnitCount...])
        switch verdict {
        case .wait:
            guard let wait = Decimal.parse(rest).flatMap({ Int64(exactly: $0) }), wait > 0 else { return .violation }
            result.waitMilliseconds = wait
        case .send where kind == .start:
            guard rest.count == StoredRecord.secondsBytes, takeTimestamp(rest, into: &result) else { return .violation }
        case .send:
            guard let value = takeSend(rest, into: &result) else { return .violation }
            if !takeToken(ofValue: value, into: &result) { return .malformedContent }
        case .address:
            if !takeToken(rest, into: &result) { return .malformedContent }
        case .alertHeld,
            .registered where rest.count > 0:
            guard rest.count > ScriptVersion.textBytes,
                let version = ScriptVersion(text: UnsafeRawBufferPointer(rebasing: rest[..<ScriptVersion.textBytes]))
            else { return .malformedContent }
            result.held = (version, UnsafeRawBufferPointer(rebasing: rest[ScriptVersion.textBytes...]))
        default:
            guard rest.count == 0 else { return .violation }
        }
        return .reply(result)
    }

    /// Takes priority, budget, the version and the timestamp of an update or an end.
    ///
    /// - Returns: the value as it was before; nil if there is none.
    private func takeSend(_ rest: UnsafeRawBufferPointer, into result: inout AdmitReply) -> UnsafeRawBufferPointer? {
        let budgetBytes = 2
        let timestampStart = 1 + budgetBytes + StoredVersion.bytes
        let valueStart = timestampStart + StoredRecord.secondsBytes
        guard rest.count >= valueStart + StoredRecord.token, let letter = PriorityLetter(rawValue: rest[0]),
            takeTimestamp(UnsafeRawBufferPointer(rebasing: rest[timestampStart..<valueStart]), into: &result)
        else { return nil }
        let budget = BigEndian.read(rest[1...budgetBytes])
        guard budget <= BucketNumbers.pushesMax else { return nil }
        result.budgetLeft = Int(budget)
        result.priority = letter == .ten ? 10 : 5
        result.isDemoted = letter == .demoted
        return UnsafeRawBufferPointer(rebasing: rest[valueStart...])
    }

    private func takeToken(ofValue value: UnsafeRawBufferPointer, into result: inout AdmitReply) -> Bool {
        let registeredAt = BigEndian.read(value[StoredRecord.registeredAt..<StoredRecord.token])
        let count = BigEndian.read(value[StoredRecord.tokenCount..<StoredRecord.registeredAt])
        let stored = UnsafeRawBufferPointer(rebasing: value[StoredRecord.token...])
        guard registeredAt <= TokenRegistration.registeredAtMillisecondsMax, count == UInt64(stored.count),
            let form = TokenForm(rawValue: value[StoredRecord.kind] & 7), let memory = tokenMemory.baseAddress,
            let token = TokenText.decode(form, stored, to: memory)
        else { return false }
        result.token = UnsafeRawBufferPointer(start: memory, count: token.count)
        result.environment = token.environment
        result.registeredAtMilliseconds = Int64(registeredAt)
        return true
    }

    private func takeTimestamp(_ bytes: UnsafeRawBufferPointer, into result: inout AdmitReply) -> Bool {
        result.timestampSeconds = BigEndian.read(bytes)
        return result.timestampSeconds <= ScriptVersion.timestampSecondsMax
    }

    /// Takes a device's fields `t` and `u`, one behind the other: the registration's time and the token.
    private func takeToken(_ stored: UnsafeRawBufferPointer, into result: inout AdmitReply) -> Bool {
        guard stored.count > StoredTime.digits, let memory = tokenMemory.baseAddress,
            let milliseconds = StoredTime.parse(UnsafeRawBufferPointer(rebasing: stored[..<StoredTime.digits])),
            let token = TokenText.decode(UnsafeRawBufferPointer(rebasing: stored[StoredTime.digits...]), to: memory)
        else { return false }
        result.token = UnsafeRawBufferPointer(start: memory, count: token.count)
        result.environment = token.environment
        result.registeredAtMilliseconds = milliseconds
        return true
    }
}

/// The priority of a send verdict, as the script says it.
private enum PriorityLetter: UInt8 {
    case five = 0x66  // "f"
    case ten = 0x74  // "t"
    case demoted = 0x64  // "d"
}

extension Verdict {
    /// As the script says it.
    var word: StaticString {
        switch self {
        case .send: "send"
        case .wait: "wait"
        case .noToken: "noToken"
        case .held: "held"
        case .retry: "retry"
        case .duplicate: "duplicate"
        case .superseded: "superseded"
        case .ended: "ended"
        case .unchanged: "unchanged"
        case .unknown: "unknown"
        case .registered: "registered"
        case .stale: "stale"
        case .unregistered: "unregistered"
        case .address: "address"
        case .overtaken: "overtaken"
        case .alertHeld: "alertHeld"
        case .tooOld: "tooOld"
        }
    }

    /// Finds the verdict that a reply begins with. No word is the beginning of another.
    init?(beginning reply: UnsafeRawBufferPointer, among verdicts: VerdictSet) {
        for verdict in verdicts {
            let word = verdict.word
            guard let start = reply.baseAddress, reply.count >= word.utf8CodeUnitCount else { continue }
            if memcmp(start, word.utf8Start, word.utf8CodeUnitCount) == 0 {
                self = verdict
                return
            }
        }
        return nil
    }
}

/// Verdicts in a word's bits; goes through them in the order of their numbers, the most frequent first.
struct VerdictSet: Sequence, IteratorProtocol {
    private var bits: UInt32

    init(_ verdicts: Verdict...) {
        bits = verdicts.reduce(0) { $0 | 1 << UInt32($1.rawValue) }
    }

    mutating func next() -> Verdict? {
        guard bits != 0 else { return nil }
        let verdict = Verdict(rawValue: UInt8(truncatingIfNeeded: bits.trailingZeroBitCount))
        bits &= bits &- 1
        return verdict
    }
}

extension CallKind {
    private static let ofUpdate = VerdictSet(
        .send,
        .wait,
        .noToken,
        .held,
        .duplicate,
        .superseded,
        .ended,
        .unchanged,
        .overtaken,
        .alertHeld,
        .tooOld
    )
    private static let ofEnd = VerdictSet(.send, .wait, .noToken, .held, .duplicate, .ended, .alertHeld)
    private static let ofStart = VerdictSet(.send, .duplicate, .superseded, .unknown)
    private static let ofHold = VerdictSet(.held, .superseded, .duplicate, .retry)
    private static let ofRegister = VerdictSet(.registered, .stale)
    private static let ofUnregister = VerdictSet(.unregistered, .stale)
    private static let ofAddress = VerdictSet(.address, .noToken, .wait)
    private static let none = VerdictSet()

    /// What the script can answer to a call of this kind: anything else shows that replies and calls are out of step.
    var verdicts: VerdictSet {
        switch self {
        case .update: Self.ofUpdate
        case .end: Self.ofEnd
        case .start: Self.ofStart
        case .hold: Self.ofHold
        case .register: Self.ofRegister
        case .unregister: Self.ofUnregister
        case .address: Self.ofAddress
        case .settle, .authenticate, .select, .setName, .serverInformation, .evictionPolicy, .loadAdmit, .loadSettle,
            .asking:
            Self.none
        }
    }
}
