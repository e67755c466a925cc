/// APNs' checks of broadcasts and of channel management, in this order: path, method, repeated headers, provider token,
/// other headers, body, app, channel. Apple does not document which fault is reported if a request has several.
enum ChannelRequestHandler {
    /// Makes all checks of a broadcast that do not need the device model. Returns the first fault, or `success`.
    static func validateBroadcast(_ slot: UnsafeMutablePointer<RequestSlot>, tape: inout JSONTape) -> SimulatedResponse
    {
        let head = slot.pointee.head
        guard head.method == .post else { return .methodNotAllowed }
        let commonResponse = validateCommonFields(head)
        guard commonResponse == .success else { return commonResponse }
        guard head.seenFields.contains(.pushType) else { return .missingPushType }
        guard head.hasLiveActivityPushType else { return .invalidPushType }
        let channelResponse = validateChannel(head)
        guard channelResponse == .success else { return channelResponse }
        guard head.isPriorityValid || head.priority == 1 else { return .badPriority }
        guard head.seenFields.contains(.expiration), head.isExpirationValid else { return .badExpirationDate }
        guard slot.pointee.receivedBodyByteCount > 0 else { return .payloadEmpty }
        guard slot.pointee.receivedBodyByteCount <= ChannelRules.bodyBytesMax else { return .payloadTooLarge }
        return isObject(body(slot), tape: &tape) ? .success : .badRequestPayload
    }

    /// Makes all checks of a request to the management service that do not need the device model. Returns the first
    /// fault, or `success`.
    static func validateManagementRequest(_ slot: UnsafeMutablePointer<RequestSlot>, tape: inout JSONTape)
        -> SimulatedResponse
    {
        let head = slot.pointee.head
        switch (head.path, head.method) {
        case (.channelList, .get), (.channels, .get), (.channels, .post), (.channels, .delete): break
        case (.channelList, _), (.channels, _): return .methodNotAllowed
        default: return .badPath
        }
        let commonResponse = validateCommonFields(head)
        guard commonResponse == .success else { return commonResponse }
        if head.path == .channelList { return .success }
        guard head.method == .post else { return validateChannel(head) }
        guard slot.pointee.receivedBodyByteCount > 0 else { return .payloadEmpty }
        guard slot.pointee.receivedBodyByteCount <= ChannelRules.bodyBytesMax else { return .payloadTooLarge }
        guard isObject(body(slot), tape: &tape) else { return .badRequestPayload }
        return validateCreation(tape)
    }

    private static func validateCommonFields(_ head: RequestHead) -> SimulatedResponse {
        // Apple's reasons for channels do not include `DuplicateHeaders`, so use the general reason.
        if head.hasDuplicateField { return .badRequestParams }
        switch head.authorizationResponse {
        case .success: break
        // Apple's reasons for channels do not include these two reasons, so use the general reason about tokens.
        case .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken: return .invalidProviderToken
        default: return head.authorizationResponse
        }
        return head.isMessageIdentifierValid ? .success : .badMessageId
    }

    private static func validateChannel(_ head: RequestHead) -> SimulatedResponse {
        guard head.seenFields.contains(.channel) else { return .missingChannelId }
        return head.isChannelValid ? .success : .badChannelId
    }

    private static func validateCreation(_ tape: borrowing JSONTape) -> SimulatedResponse {
        guard let policy = tape.member("message-storage-policy", of: 0) else { return .missingChannelQueueSize }
        guard let number = tape.integer(policy), number == 0 || number == 1 else { return .badRequestParams }
        guard let type = tape.member("push-type", of: 0) else { return .missingPushType }
        guard tape[type].kind == .string, tape.string(type) == "LiveActivity" else { return .invalidPushType }
        return .success
    }

    private static func isObject(_ body: UnsafeRawBufferPointer, tape: inout JSONTape) -> Bool {
        do throws(JSONTape.Fault) {
            try tape.read(body)
        } catch {
            return false
        }
        return tape[0].kind == .object
    }

    private static func body(_ slot: UnsafeMutablePointer<RequestSlot>) -> UnsafeRawBufferPointer {
        slot.pointee.memory.prefix(
            min(slot.pointee.receivedBodyByteCount, RequestMemory.bodyByteRange.count),
            of: RequestMemory.bodyByteRange
        )
    }

    /// Returns the index of the app whose bundle id is in the path. Nil if there is no such app, or if the team that
    /// signed the provider token may not push to it. Unlike a topic, the path has no suffix `.push-type.liveactivity`.
    static func appIndex(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        teamId: String,
        model: borrowing DeviceModel
    ) -> Int? {
        let bundle = slot.pointee.memory.prefix(slot.pointee.head.bundleIdByteCount, of: RequestMemory.bundleByteRange)
        guard let appIndex = model.appIndex(bundle: bundle),
            model.mayPush(team: teamId, to: appIndex)
        else { return nil }
        return appIndex
    }

    /// Sends a broadcast to a channel and returns `success`, or returns why APNs refuses the broadcast.
    static func publishBroadcast(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        teamId: String,
        model: inout DeviceModel,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) -> SimulatedResponse {
        guard let appIndex = appIndex(slot, teamId: teamId, model: model) else {
            return .topicDisallowed
        }
        let head = slot.pointee.head
        let broadcast = DeviceModel.Broadcast(
            channel: channelIdentifier(slot),
            priority: head.priority,
            expirationSeconds: head.expirationSeconds
        )
        return model.publish(
            broadcast,
            body(slot),
            appIndex: appIndex,
            tape: &tape,
            nowMilliseconds: nowMilliseconds
        )
    }

    /// Carries out a request to the management service and returns `success`, or returns why APNs refuses the request.
    /// On success, writes the status and body of the response, and the id of a created channel, into the slot.
    static func carryOutManagementRequest(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        teamId: String,
        model: inout DeviceModel,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) -> SimulatedResponse {
        guard let appIndex = appIndex(slot, teamId: teamId, model: model) else {
            return .topicDisallowed
        }
        guard model.apps[appIndex].mayBroadcast else { return .featureNotEnabled }
        let head = slot.pointee.head
        if head.path == .channelList {
            slot.pointee.managementResponseBody = channelListJSON(
                model.channels.openChannelIdentifiers(appIndex: appIndex)
            )
            return .success
        }
        if head.method == .post {
            return createChannel(slot, appIndex, model: &model, tape: &tape, nowMilliseconds: nowMilliseconds)
        }
        guard let index = model.channels.find(channelIdentifier(slot), appIndex: appIndex) else {
            return .channelNotRegistered
        }
        if head.method == .delete {
            model.channels.delete(index, nowMilliseconds: nowMilliseconds)
            slot.pointee.successStatus = .deleted
        } else {
            var writer = SimulatorJSONWriter()
            writer.object { writer in
                writer.member("message-storage-policy", model.channels[index].storesNewestMessage ? 1 : 0)
                writer.member("push-type", "LiveActivity")
            }
            slot.pointee.managementResponseBody = writer.bytes
        }
        return .success
    }

    private static func createChannel(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        _ appIndex: Int,
        model: inout DeviceModel,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) -> SimulatedResponse {
        guard isObject(body(slot), tape: &tape), let policy = tape.member("message-storage-policy", of: 0) else {
            return .badRequestPayload
        }
        let (response, identifier) = model.createChannel(
            appIndex: appIndex,
            storesNewestMessage: tape.integer(policy) == 1,
            nowMilliseconds: nowMilliseconds
        )
        guard response == .success else { return response }
        slot.pointee.successStatus = .created
        slot.pointee.head.channelByteCount = Array(identifier.utf8)
            .withUnsafeBytes { slot.pointee.memory.write($0, in: RequestMemory.channelByteRange) }
        return .success
    }

    private static func channelListJSON(_ identifiers: [String]) -> [UInt8] {
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("channels", array: { writer in for identifier in identifiers { writer.string(identifier) } })
        }
        return writer.bytes
    }

    private static func channelIdentifier(_ slot: UnsafeMutablePointer<RequestSlot>) -> String {
        let bytes = slot.pointee.memory.prefix(slot.pointee.head.channelByteCount, of: RequestMemory.channelByteRange)
        return String(decoding: bytes, as: UTF8.self)
    }
}
