import Reactor

extension RedisConnection {
    /// Longest command that can be held: it has to come back in one reply.
    public static let heldCommandBytesMax = ReplyReader.stringBytesMax - 64
    /// The most updates, ends and settlements of activities that one command carries.
    public static let admissionsPerCommandMax = AdmissionBatch.callsMax
    /// Starts that are held for one token of a device, at most.
    public static let heldStartsMax = 8
    /// Longest attributes type, in bytes.
    public static let attributesTypeBytesMax = 256

    /// Decides what becomes of a start: `send`, `superseded`, `duplicate`, or `unknown`, which the caller has to settle. With
    /// `send` the activity's life, its bucket and its spacing begin anew.
    ///
    /// - Parameters:
    ///   - key: an activity's.
    ///   - claim: names the caller's record of the start among all that anyone may have of it, by chance: a call that is repeated
    ///     since its reply was lost gets its `send` again. Not to be used again once the record may have been sent.
    ///   - tag: comes back with the reply.
    public func admitStart(key: HashKey, version: ScriptVersion, claim: UInt64, tag: UInt64) -> CallIssue {
        guard key.kind == .activity else { return .outOfBounds }
        return issue(.start, key, argumentCount: 3, argumentBytes: 72, tag: tag) { writer in
            writer.argument(letter: UInt8(ascii: "s"))
            writer.recordArgument(version)
            writer.argument(eightBytes: claim)
        }
    }

    /// Decides what becomes of an update or an end. See ``AdmitReply`` for what it can come to.
    ///
    /// Those that are issued one after the other, settlements of activities among them and without another call between them, leave as one
    /// command: at the turn's end, or before the next other call. Each succeeds or fails by itself, except that the command may fail as a
    /// whole.
    ///
    /// - Parameters:
    ///   - key: an activity's.
    ///   - digest: of what the activity would show, the alert included; an update that equals what is shown is `unchanged`. Its lower
    ///     48 bits are compared. Not used for an end.
    ///   - registration: an update token that came with the command; it counts as registered, and says nothing of frequent updates.
    ///   - tag: comes back with the reply.
    public func admitCommand(
        key: HashKey,
        event: CommandEvent,
        version: ScriptVersion,
        digest: UInt64,
        pace: PaceArguments,
        request: PushRequest,
        registration: TokenRegistration?,
        tag: UInt64
    ) -> CallIssue {
        guard key.kind == .activity, registration?.isWithinBounds ?? true else { return .outOfBounds }
        if let obstacle = obstacle(key) { return obstacle }
        if !batch.takes(pace) { flushAdmissions() }
        batch.append(key, event, version, digest, pace, request, registration)
        let asked = AskedPush(
            timestampSeconds: version.timestampSeconds,
            isHigh: request.isHigh,
            budget: pace.budget,
            frequentBudget: pace.frequentBudget
        )
        collected(event == .update ? .update : .end, tag: tag, asked)
        return .issued
    }

    /// A call was put into the batch.
    private func collected(_ kind: CallKind, tag: UInt64, _ asked: AskedPush = AskedPush()) {
        scheduleTurnEnd()
        append(kind, tag: tag, batchCount: 0, asked: asked)
        if batch.count == configuration.admissionsPerCommandMax { flushAdmissions() }
    }

    /// Writes the updates, ends and settlements that were collected, as one command. To be called before anything else is written.
    func flushAdmissions() {
        guard batch.count > 0, let stream else { return }
        let room = stream.reserve(ScriptPrefixes.bytes + batch.commandBytesMax)
        stream.commit(batch.write(prefix: scripts[.admit], to: room))
        outstanding.markNewestAsBatch(count: batch.count)
        batch.removeAll()
    }

    /// Keeps a command until its token registers: `held`, `superseded` by a newer one, `duplicate`, `retry` if a token has come, or
    /// `full` for a start beside which ``heldStartsMax`` others wait.
    ///
    /// - Parameters:
    ///   - scope: of a device, the start.
    ///   - command: whatever is wanted back with the registration, 1 through ``heldCommandBytesMax`` bytes.
    ///   - carriesAlert: a newer update or end is told of the alert (`alertHeld`). Of a start nobody is.
    public func hold(
        key: HashKey,
        scope: RegistrationScope,
        version: ScriptVersion,
        command: UnsafeRawBufferPointer,
        carriesAlert: Bool,
        tag: UInt64
    ) -> CallIssue {
        guard scope.isWithinBounds(key, ofStart: true), command.count > 0, command.count <= Self.heldCommandBytesMax
        else { return .outOfBounds }
        let bytes = 64 + scope.count + command.count
        return issue(.hold, key, argumentCount: 6, argumentBytes: bytes, tag: tag) { writer in
            writer.argument(letter: UInt8(ascii: "h"))
            writer.argument(scope)
            writer.argument(version)
            writer.argument(command)
            writer.argument(letter: UInt8(ascii: carriesAlert ? "1" : "0"))
            guard case .start(_, let activity) = scope else { return writer.recordArgument(version) }
            writer.argument(activity)
        }
    }

    /// Registers a token: `registered`, with the command that waited for it, the oldest of several starts, or `stale`.
    ///
    /// - Parameters:
    ///   - frequentUpdates: the person allows them, and so the activity has the larger bucket; nil: as it was. Of no account for a device.
    ///   - shows: the version that the app displays already; what is held is given out only if it is newer. Of no account for a device.
    ///   - after: of a device, the start that was given out last: the next one is, held in the order of their versions.
    public func register(
        key: HashKey,
        scope: RegistrationScope,
        registration: TokenRegistration,
        frequentUpdates: Bool?,
        shows: ScriptVersion?,
        after: HeldStart? = nil,
        tag: UInt64
    ) -> CallIssue {
        guard scope.isWithinBounds(key), registration.isWithinBounds, after?.isWithinBounds ?? true else {
            return .outOfBounds
        }
        let bytes = 128 + scope.count + TokenText.bytesMax + (after?.activity.count ?? 0)
        let isActivity = key.kind == .activity
        return issue(.register, key, argumentCount: isActivity ? 5 : 6, argumentBytes: bytes, tag: tag) { writer in
            writer.argument(letter: UInt8(ascii: "r"))
            writer.argument(scope)
            guard isActivity else {
                writer.arguments(registration)
                if let after { writer.argument(after.version) } else { writer.emptyArgument() }
                if let after { writer.argument(after.activity) } else { writer.emptyArgument() }
                return
            }
            writer.recordArgument(registration)
            if let shows { writer.argument(shows) } else { writer.emptyArgument() }
            switch frequentUpdates {
            case true?: writer.argument(letter: UInt8(ascii: "1"))
            case false?: writer.argument(letter: UInt8(ascii: "0"))
            case nil: writer.emptyArgument()
            }
        }
    }

    /// Takes a token, or all of a device's, out of use: `unregistered`, or `stale` if registered later than `atMilliseconds`.
    public func unregister(key: HashKey, scope: RegistrationScope, atMilliseconds: Int64, tag: UInt64) -> CallIssue {
        var isAll = false
        if case .allAttributesTypes = scope { isAll = true }
        guard scope.isWithinBounds(key) || isAll && key.kind == .device else { return .outOfBounds }
        return issue(.unregister, key, argumentCount: 3, argumentBytes: 32 + scope.count, tag: tag) { writer in
            writer.argument(letter: UInt8(ascii: "x"))
            writer.argument(scope)
            writer.argument(milliseconds: atMilliseconds)
        }
    }

    /// Asks for a device's push-to-start token: `address`, which draws a start, `noToken`, or `wait` while there is none to draw.
    ///
    /// A call that is repeated since its reply was lost may draw twice: rather a start too late than one too many.
    ///
    /// - Parameters:
    ///   - startBudget: of which nothing is reserved.
    ///   - registration: a token that came with the start; it counts as registered.
    public func address(
        key: HashKey,
        attributesType: UnsafeRawBufferPointer,
        startBudget: BucketNumbers,
        registration: TokenRegistration?,
        tag: UInt64
    ) -> CallIssue {
        let scope = RegistrationScope.attributesType(attributesType)
        guard scope.isWithinBounds(key), registration?.isWithinBounds ?? true else { return .outOfBounds }
        let count = registration == nil ? 3 : 5
        let bytes = 64 + scope.count + BucketNumbers.bytes + (registration == nil ? 0 : TokenText.bytesMax)
        return issue(.address, key, argumentCount: count, argumentBytes: bytes, tag: tag) { writer in
            writer.argument(letter: UInt8(ascii: "a"))
            writer.argument(scope)
            writer.argument(startBudget)
            if let registration { writer.arguments(registration) }
        }
    }

    /// Gives back what `address` drew for a start that its admission refused, as far as it has not been refilled. The reply is that of
    /// `settle`.
    ///
    /// - Parameter draw: as `address` answered it (``AdmitReply/draw``).
    public func refundStart(key: HashKey, startBudget: BucketNumbers, draw: Int64, tag: UInt64) -> CallIssue {
        guard key.kind == .device else { return .outOfBounds }
        let bytes = 32 + CommandWriter.refundArgumentBytes
        return issue(.settle, key, argumentCount: 1, argumentBytes: bytes, tag: tag) { writer in
            writer.refundArgument(startBudget, draw: draw)
        }
    }

    /// Writes down how a version ended, or that APNs limits an activity, and may retire a token. On a device's hash it removes the
    /// held start of that version.
    ///
    /// - Parameters:
    ///   - scope: of a device, the start.
    ///   - version: nil: only the token is retired. Of no account with `limited`.
    ///   - digest: of what is shown now, if accepted; its lower 48 bits count.
    ///   - pace: needed with `limited`, else of no account.
    public func settle(
        key: HashKey,
        scope: RegistrationScope,
        version: ScriptVersion?,
        outcome: SettledOutcome,
        digest: UInt64,
        retirement: TokenRetirement?,
        pace: PaceArguments?,
        tag: UInt64
    ) -> CallIssue {
        precondition(outcome != .limited || pace != nil, "a 429 is settled with the pace")
        guard scope.isWithinBounds(key, ofStart: true), retirement?.isWithinBounds ?? true else { return .outOfBounds }
        if key.kind == .device { return settleStart(key, scope, version, outcome, retirement, tag: tag) }
        if let obstacle = obstacle(key) { return obstacle }
        let number = SettlementNumber(version, outcome)
        if let pace, number == .limited, !batch.takes(pace) { flushAdmissions() }
        batch.append(key, number, version, digest, number == .limited ? pace : nil, retirement)
        collected(.settle, tag: tag)
        return .issued
    }

    private func settleStart(
        _ key: HashKey,
        _ scope: RegistrationScope,
        _ version: ScriptVersion?,
        _ outcome: SettledOutcome,
        _ retirement: TokenRetirement?,
        tag: UInt64
    ) -> CallIssue {
        let count = retirement == nil ? 3 : 6
        let bytes = 96 + scope.count + (retirement == nil ? 0 : TokenText.bytesMax)
        return issue(.settle, key, argumentCount: count, argumentBytes: bytes, tag: tag) { writer in
            if let version, outcome != .limited {
                writer.outcomeArgument(outcome, version)
            } else {
                writer.argument(letter: outcome.rawValue)
            }
            writer.argument(scope)
            if case .start(_, let activity) = scope { writer.argument(activity) }
            if let retirement { writer.arguments(retirement) }
        }
    }

    /// - Parameters:
    ///   - argumentCount: without the key.
    ///   - argumentBytes: at least what all arguments are together, without what RESP puts around each.
    private func issue(
        _ kind: CallKind,
        _ key: HashKey,
        argumentCount: Int,
        argumentBytes: Int,
        tag: UInt64,
        _ arguments: (inout CommandWriter) -> Void
    ) -> CallIssue {
        if let obstacle = obstacle(key) { return obstacle }
        guard let stream, let script = kind.script else { return .notReady }
        flushAdmissions()
        scheduleTurnEnd()
        let overhead = CommandWriter.argumentOverheadBytes * (argumentCount + 3)
        let room = stream.reserve(ScriptPrefixes.bytes + key.count + argumentBytes + overhead)
        var writer = CommandWriter(room, argumentCount: ScriptPrefixes.argumentCount + 2 + argumentCount)
        writer.verbatim(scripts[script])
        writer.argument(letter: UInt8(ascii: "1"))
        writer.argument(key)
        arguments(&writer)
        stream.commit(writer.count)
        append(kind, tag: tag, batchCount: 1)
        return .issued
    }

    /// Why a call with this key cannot be issued now; nil if it can.
    private func obstacle(_ key: HashKey) -> CallIssue? {
        guard key.count <= HashKey.bytesMax, key.app.count > 0, key.identifier.count > 0 else { return .outOfBounds }
        guard state == .ready, let stream else { return .notReady }
        guard outstanding.count < configuration.outstandingCallsMax,
            stream.pendingOutputBytes < Stream.highWaterBytes
        else { return .full }
        return nil
    }
}

extension SettlementNumber {
    fileprivate init(_ version: ScriptVersion?, _ outcome: SettledOutcome) {
        switch outcome {
        case .limited: self = .limited
        case _ where version == nil: self = .retirement
        case .accepted: self = .accepted
        case .notShown: self = .notShown
        case .unknown: self = .unknown
        }
    }
}

extension TokenRegistration {
    fileprivate var isWithinBounds: Bool { token.count > 0 && token.count <= Self.tokenBytesMax }
}

extension HeldStart {
    fileprivate var isWithinBounds: Bool { activity.count > 0 && activity.count <= HashKey.bytesMax }
}

extension TokenRetirement {
    fileprivate var isWithinBounds: Bool { token.count > 0 && token.count <= TokenRegistration.tokenBytesMax }
}

extension RegistrationScope {
    /// Bytes of the suffix, and of an activity.
    fileprivate var count: Int {
        switch self {
        case .activity: 0
        case .attributesType(let type): type.count + 1
        case .start(let type, let activity): type.count + 1 + activity.count
        case .allAttributesTypes: 1
        }
    }

    /// - Parameter ofStart: of a device, whether a start is to be named and not only a token.
    fileprivate func isWithinBounds(_ key: HashKey, ofStart: Bool = false) -> Bool {
        switch self {
        case .activity: key.kind == .activity
        case .attributesType(let type): key.kind == .device && !ofStart && Self.isWithinBounds(type)
        case .start(let type, let activity):
            key.kind == .device && ofStart && Self.isWithinBounds(type) && activity.count > 0
                && activity.count <= HashKey.bytesMax
        case .allAttributesTypes: false
        }
    }

    private static func isWithinBounds(_ type: UnsafeRawBufferPointer) -> Bool {
        type.count > 0 && type.count <= RedisConnection.attributesTypeBytesMax
    }
}
