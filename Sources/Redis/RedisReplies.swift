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
            take(admitReply(reply, of: call.kind), of: call, handler)
        }
    }

    private func take(_ reading: AdmitReading, of call: OutstandingCall, _ handler: (any RedisHandler)?) {
        switch reading {
        case .violation:
            violated(call, handler)
        case .malformedContent:
            let error = RedisError(.unknown, "what Redis holds under a key is not what Causeway writes")
            handler?.failed(tag: call.tag, script: .admit, error: error)
        case .reply(let admitReply):
            noteSuccess()
            handler?.admitted(tag: call.tag, reply: admitReply)
        }
    }

    /// Takes the reply to the `count` oldest outstanding calls, which left as one command: a reply for each; behind them, in their
    /// order, the values of those that are to be sent otherwise than they asked; and last the clock, if one may be sent as it asked.
    func take(_ reply: Reply, ofBatch count: Int, from reader: ReplyReader, _ handler: (any RedisHandler)?) {
        if reply.kind == .error { return takeError(RedisError(reply: reply.bytes), ofBatch: count, handler) }
        var nowMilliseconds: UInt64?
        var isWhole = false
        if case .array(let elements) = reply.kind, elements >= count {
            var (numbers, values) = (0, 0)
            for index in 0..<count where outstanding[index].kind.isCommand {
                let element = reader.element(index)
                if element.kind == .integer { numbers += 1 } else if element.isValue { values += 1 }
            }
            if elements == count + numbers + 1 {
                let clock = reader.element(elements - 1)
                if clock.kind == .integer { nowMilliseconds = UInt64(exactly: clock.integer) }
                isWhole = nowMilliseconds != nil
            } else {
                isWhole = elements == count + numbers && values == 0
            }
        }
        var valueIndex = count
        for index in 0..<count {
            // The handler may close the connection, or a reply end it: then the rest has failed already.
            guard reader === self.reader, let call = outstanding.removeOldest() else { return }
            guard isWhole else {
                violated(call, handler)
                continue
            }
            let element = reader.element(index)
            if call.kind.isCommand && element.kind == .integer {
                take(sendReply(element.integer, reader.element(valueIndex)), of: call, handler)
                valueIndex += 1
            } else if call.kind.isCommand && element.isValue, let nowMilliseconds {
                take(sendReply(to: call.asked, element.bytes, nowMilliseconds), of: call, handler)
            } else {
                take(element, of: call, from: reader, handler)
            }
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
        case .send:
            guard kind == .start else { return .violation }
            guard rest.count == StoredRecord.secondsBytes, takeTimestamp(rest, into: &result) else { return .violation }
        case .address:
            guard rest.count > StoredTime.digits,
                let draw = StoredTime.parse(UnsafeRawBufferPointer(rebasing: rest[..<StoredTime.digits]))
            else { return .violation }
            result.draw = draw
            let stored = UnsafeRawBufferPointer(rebasing: rest[StoredTime.digits...])
            if !takeToken(stored, into: &result) { return .malformedContent }
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

    /// An update or an end is to be sent: the number says how, and the value as it was before, without what stands behind the token,
    /// says where to.
    private func sendReply(_ number: Int64, _ value: Reply) -> AdmitReading {
        guard value.kind == .string, value.bytes.count >= StoredRecord.token, number > 0,
            let priority = SentPriority(rawValue: UInt8(number >> 14 & 3))
        else { return .violation }
        var result = AdmitReply(verdict: .send)
        result.timestampSeconds = UInt64(number >> 16)
        result.budgetLeft = Int(number & 0x3FFF)
        guard result.timestampSeconds <= ScriptVersion.timestampSecondsMax, result.budgetLeft <= BucketNumbers.pushesMax
        else { return .violation }
        result.priority = priority == .ten ? 10 : 5
        result.isDemoted = priority == .demoted
        return takeToken(ofValue: value.bytes, into: &result) ? .reply(result) : .malformedContent
    }

    /// An update or an end is to be sent as it asked: the value as it was before says all else, with the clock.
    private func sendReply(
        to asked: AskedPush,
        _ value: UnsafeRawBufferPointer,
        _ nowMilliseconds: UInt64
    ) -> AdmitReading {
        var result = AdmitReply(verdict: .send)
        result.timestampSeconds = asked.timestampSeconds
        result.priority = asked.isHigh ? 10 : 5
        let fullAt = LittleEndian.read(value[StoredRecord.fullAt..<StoredRecord.assigned])
        let isFrequent = value[StoredRecord.kind] & StoredRecord.Flag.frequentUpdates != 0
        let left = (isFrequent ? asked.frequentBudget : asked.budget)
            .left(fullAtMilliseconds: fullAt, nowMilliseconds: nowMilliseconds)
        result.budgetLeft = asked.isHigh ? max(0, left - 1) : left
        return takeToken(ofValue: value, into: &result) ? .reply(result) : .malformedContent
    }

    private func takeToken(ofValue value: UnsafeRawBufferPointer, into result: inout AdmitReply) -> Bool {
        let registeredAt = LittleEndian.read(value[StoredRecord.registeredAt..<StoredRecord.token])
        let count = LittleEndian.read(value[StoredRecord.tokenCount..<StoredRecord.kind])
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
        result.timestampSeconds = LittleEndian.read(bytes)
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

extension Reply {
    /// It is an activity's value, and not a word: among its first bytes are the token's kind and the highest of its length, none of
    /// which is a letter or a digit.
    fileprivate var isValue: Bool {
        kind == .string && bytes.count >= StoredRecord.token && bytes[StoredRecord.kind] < 0x10
    }
}

/// The priority of a send verdict, as the script numbers it.
private enum SentPriority: UInt8 {
    case five = 1
    case ten
    case demoted
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
        case .full: "full"
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
    private static let ofHold = VerdictSet(.held, .superseded, .duplicate, .retry, .full)
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
