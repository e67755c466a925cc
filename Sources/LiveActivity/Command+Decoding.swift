extension Command {
    /// Decodes a record of the commands topic. The whole record is validated, including Apple's dictionary and the
    /// custom keys. Nothing is allocated.
    ///
    /// - Throws: the first ``Fault`` found, with its position.
    public static func decode(_ record: UnsafeRawBufferPointer) throws(Fault) -> Command {
        var cache = ApsCache.disabled
        return try decode(record, recalling: &cache)
    }

    /// Decodes a record even if its body is too large (``fitsBodyLimit``): the command's policy may drop fields from
    /// the body (R33).
    public static func decodeIgnoringBodyLimit(_ record: UnsafeRawBufferPointer) throws(Fault) -> Command {
        var cache = ApsCache.disabled
        var templates = RecentStateTemplates.disabled
        return try decodeIgnoringBodyLimit(record, recalling: &cache, &templates)
    }

    /// Decodes a record that may have the same `aps` dictionary as the previous record.
    ///
    /// - Parameter cache: remembers the previous dictionary, so that the same bytes are not parsed again.
    public static func decode(
        _ record: UnsafeRawBufferPointer,
        recalling cache: inout ApsCache
    ) throws(Fault) -> Command {
        var templates = RecentStateTemplates.disabled
        return try decode(record, recalling: &cache, &templates, isWrittenByCauseway: false, mustFitBodyLimit: true)
    }

    /// Decodes a record even if its body is too large (``fitsBodyLimit``). If the record has the same `aps` dictionary
    /// as the previous record, byte for byte, the dictionary is not parsed again.
    ///
    /// - Parameter templates: recent states that fit their shapes. If a new state differs from one of these states only
    ///   in values, only these values are read and checked (``RecentStateTemplates/hasMatched(_:ofApp:)``).
    public static func decodeIgnoringBodyLimit(
        _ record: UnsafeRawBufferPointer,
        recalling cache: inout ApsCache,
        _ templates: inout RecentStateTemplates
    ) throws(Fault) -> Command {
        try decode(record, recalling: &cache, &templates, isWrittenByCauseway: false, mustFitBodyLimit: false)
    }

    /// Decodes a command that ``CommandRecord`` wrote. Such a command may have keys that a producer must not write.
    public static func decodeWrittenByCauseway(_ record: UnsafeRawBufferPointer) throws(Fault) -> Command {
        var cache = ApsCache.disabled
        var templates = RecentStateTemplates.disabled
        return try decode(record, recalling: &cache, &templates, isWrittenByCauseway: true, mustFitBodyLimit: true)
    }

    /// Decodes a command. Every other function that decodes a command calls this one.
    ///
    /// - Parameters:
    ///   - isWrittenByCauseway: whether the record may have the keys that only Causeway may write.
    ///   - mustFitBodyLimit: whether a body that is too large is a fault.
    private static func decode(
        _ record: UnsafeRawBufferPointer,
        recalling cache: inout ApsCache,
        _ templates: inout RecentStateTemplates,
        isWrittenByCauseway: Bool,
        mustFitBodyLimit: Bool
    ) throws(Fault) -> Command {
        templates.forgetMatchedState()
        let text = try JSONText(record)
        var command = Command.blank
        let start = try text.findRecordStart()
        var members = try JSONMembers(text, at: start, of: .record, unknownKeys: .refused)
        var apsKeys = ApsKeys()
        while let field = try members.next(in: text, Field.commandField) {
            guard field == .aps else {
                members.position = try command.decode(field, text, members.position)
                continue
            }
            if let next = cache.copyIfRepeated(text, members.position, into: &command, &apsKeys) {
                members.position = next
            } else {
                members.position = try command.decodeAps(text, members.position, &apsKeys, &templates)
                cache.remember(text, command, apsKeys)
            }
        }
        try text.requireRecordEnd(members.position)

        if !isWrittenByCauseway { try members.refuseReservedKeys(start) }
        try command.checkAddress(text, start, members)
        try command.checkAps(apsKeys)
        command.bodyByteCount = PushBody.byteCount(aps: command.aps, payloadMembers: command.payloadMembers)
        // The size is checked here and not by a function around this one, which would copy the command once more.
        guard command.fitsBodyLimit || !mustFitBodyLimit else { throw command.bodyTooLargeFault }
        return command
    }

    /// A command whose fields have not been read yet.
    static let blank = Command(
        event: .update,
        version: Version.zero,
        app: .absent,
        activity: .absent,
        audience: .absent,
        channel: .absent,
        requestsChannel: false,
        device: .absent,
        identifier: .absent,
        token: .absent,
        environment: nil,
        policy: .absent,
        attributesType: .absent,
        aps: .absent,
        timestampDigits: .absent,
        alert: .absent,
        contentState: .absent,
        attributes: .absent,
        payload: .absent,
        payloadMembers: .absent,
        priority: 0,
        expirationSeconds: -1,
        staleDateSeconds: -1,
        dismissalDateSeconds: -1,
        carriedAlertVersion: Version.zero,
        bodyByteCount: 0
    )

    /// Reads the value of a key of the record other than `aps`, and returns the position after the value.
    ///
    /// Each case assigns its own property. A common function with the property as an `inout` argument would cost up to
    /// 2 % more instructions for each command.
    @inline(__always)
    private mutating func decode(_ field: Field, _ text: JSONText, _ position: Int) throws(Fault) -> Int {
        switch field {
        case .app:
            let name = try text.readName(position, atMost: Limits.identifierBytesMax, field)
            app = name.textRange
            return name.nextPosition
        case .activity:
            let name = try text.readName(position, atMost: Limits.identifierBytesMax, field)
            activity = name.textRange
            return name.nextPosition
        case .device:
            let name = try text.readName(position, atMost: Limits.identifierBytesMax, field)
            device = name.textRange
            return name.nextPosition
        case .audience:
            let name = try text.readName(position, atMost: Limits.identifierBytesMax, field)
            audience = name.textRange
            return name.nextPosition
        case .id:
            let name = try text.readName(position, atMost: Limits.commandIdentifierBytesMax, field)
            identifier = name.textRange
            return name.nextPosition
        case .token:
            let digits = try text.readToken(position, field)
            token = digits.textRange
            return digits.nextPosition
        case .policy:
            let name = try text.readPolicyName(position, field)
            policy = name.textRange
            return name.nextPosition
        case .environment:
            let (value, next) = try text.readEnvironment(position, field)
            environment = value
            return next
        case .payload:
            return try decodePayload(text, position)
        case .channel:
            return try decodeChannel(text, position)
        default:
            return try decodeNumber(field, text, position)
        }
    }

    @inline(__always)
    private mutating func decodeNumber(_ field: Field, _ text: JSONText, _ position: Int) throws(Fault) -> Int {
        switch field {
        case .sequence:
            let (value, next) = try text.readUnsignedInteger(position, field)
            version.sequence = value
            return next
        case .priority:
            let (value, next) = try text.readUnsignedInteger(position, field)
            priority = UInt8(clamping: value)
            guard PushPriority.isValid(priority) else { throw Fault(.outOfRange, field, at: position) }
            return next
        case .expiration:
            // APNs takes the expiration 0 for a single attempt to deliver a push. Here 0 is refused, because it would
            // be a time in the past.
            let (value, next) = try text.readInteger(
                position,
                from: Limits.timestampMin,
                to: Limits.timestampMax,
                field
            )
            expirationSeconds = value
            return next
        case .alertTimestamp:
            let (value, next) = try text.readInteger(
                position,
                from: Limits.timestampMin,
                to: Limits.timestampMax,
                field
            )
            carriedAlertVersion.timestamp = value
            return next
        case .alertSequence:
            let (value, next) = try text.readUnsignedInteger(position, field)
            carriedAlertVersion.sequence = value
            return next
        // This switch has no default case, so that the compiler reports a new field that is not handled here.
        case .app, .activity, .audience, .device, .id, .token, .policy, .environment, .payload, .channel, .aps,
            .event, .timestamp, .contentState, .apsAttributesType, .attributes, .alert, .staleDate, .dismissalDate,
            .relevanceScore, .inputPushToken, .inputPushChannel, .alertTitle, .alertBody, .alertSound, .titleKey,
            .titleArguments, .bodyKey, .bodyArguments, .registeredAt, .attributesType, .frequentUpdates, .shows,
            .showsTimestamp, .showsSequence, .audiences, .channels, .record, .body:
            preconditionFailure("Field.commandField gave a field that is not read here")
        }
    }

    /// Reads `channel`: a channel's id, or a boolean that says whether the command asks for a broadcast channel.
    @inline(never)
    private mutating func decodeChannel(_ text: JSONText, _ position: Int) throws(Fault) -> Int {
        guard position < text.count, text.byte(position) == UInt8(ascii: "\"") else {
            let (value, next) = try text.readBoolean(position, .channel)
            requestsChannel = value
            return next
        }
        let name = try text.readName(position, atMost: ChannelIdentifier.bytesMax, .channel)
        let byteCount = Int(name.textRange.range.count)
        let isValid = withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 1) { unescaped in
            let unescapedByteCount = unescape(
                name.textRange,
                from: text.bytes(ByteRange(from: 0, to: text.count)),
                into: unescaped
            )
            return ChannelIdentifier.isValid(UnsafeRawBufferPointer(rebasing: unescaped[..<unescapedByteCount]))
        }
        guard isValid else { throw Fault(.unknownValue, .channel, at: position) }
        channel = name.textRange
        return name.nextPosition
    }

    /// Reads the custom keys (`payload`). None of them may be `aps`: in the body they are beside Apple's dictionary,
    /// whose key is `aps`.
    private mutating func decodePayload(_ text: JSONText, _ start: Int) throws(Fault) -> Int {
        var members = try JSONMembers(text, at: start, of: .payload, unknownKeys: .unchecked)
        var membersStart = 0
        var membersEnd = 0
        while let field = try members.next(in: text, Field.payloadField) {
            guard field != .aps else { throw Fault(.notAllowed, .payload, at: members.keyPosition) }
            if membersStart == 0 { membersStart = members.keyPosition }
            membersEnd = try text.skipValue(members.position, depth: 2, .payload)
            members.position = membersEnd
        }
        payload = ByteRange(from: start, to: members.position)
        if membersStart > 0 { payloadMembers = ByteRange(from: membersStart, to: membersEnd) }
        return members.position
    }

    /// Throws if `app`, `aps` or the address (`activity`, `audience` or `channel`) is missing, or if another key does
    /// not fit the address.
    @inline(__always)
    private func checkAddress(_ text: JSONText, _ start: Int, _ members: JSONMembers) throws(Fault) {
        guard members.has(.app) else { throw Fault(.missingField, .app, at: start) }
        guard members.has(.aps) else { throw Fault(.missingField, .aps, at: start) }
        guard channel.isAbsent else { return try checkChannel(members) }
        if members.has(.audience) { return try checkAudience(text, start, members) }
        guard !members.has(.channel) else { throw Fault(.notAllowed, .channel, at: start) }
        guard members.has(.activity) else { throw Fault(.missingField, .activity, at: start) }
        guard members.has(.token) == members.has(.environment) else {
            throw Fault(.missingField, members.has(.token) ? .environment : .token, at: start)
        }
        guard members.has(.device) == (event == .start) else {
            guard event == .start else { throw Fault(.notAllowed, .device, at: Int(device.range.offset) &- 1) }
            throw Fault(.missingField, .device, at: start)
        }
    }

    /// Throws if a command to a channel also names another address or a token, or is a start: APNs broadcasts no start.
    @inline(never)
    private func checkChannel(_ members: JSONMembers) throws(Fault) {
        let isOnlyAddress =
            !members.has(.audience) && !members.has(.activity) && !members.has(.device) && !members.has(.token)
        guard isOnlyAddress, event != .start else {
            throw Fault(.notAllowed, .channel, at: Int(channel.range.offset) &- 1)
        }
    }

    /// Checks a command to an audience. Such a command names no device, token or environment, because each member has
    /// its own. Only a start names an activity, which must be a template (``ActivityIdentifierTemplate``).
    @inline(never)
    private func checkAudience(_ text: JSONText, _ start: Int, _ members: JSONMembers) throws(Fault) {
        guard !members.has(.device), event == .start || !members.has(.activity) else {
            throw Fault(.notAllowed, .audience, at: start)
        }
        guard !members.has(.token) else { throw Fault(.notAllowed, .token, at: start) }
        guard !members.has(.environment) else { throw Fault(.notAllowed, .environment, at: start) }
        guard event == .start else { return }
        guard members.has(.activity) else { throw Fault(.missingField, .activity, at: start) }
        guard ActivityIdentifierTemplate.hasPlaceholder(text.bytes(activity.range)) else {
            throw Fault(.missingPlaceholder, .activity, at: Int(activity.range.offset) &- 1)
        }
    }
}

extension JSONMembers {
    /// Throws if the record has `alertTimestamp` or `alertSequence`, which only Causeway may write.
    @inline(__always)
    fileprivate func refuseReservedKeys(_ start: Int) throws(Fault) {
        if has(.alertTimestamp) { throw Fault(.unknownKey, .alertTimestamp, at: start) }
        if has(.alertSequence) { throw Fault(.unknownKey, .alertSequence, at: start) }
    }
}
