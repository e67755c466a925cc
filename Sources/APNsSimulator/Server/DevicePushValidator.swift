/// APNs' checks of device pushes, in this order: method, path, repeated headers, provider token, other headers, body,
/// form of the device token, app, device token. Apple does not document which fault is reported if a request has
/// several.
enum DevicePushValidator {
    /// Apple's limit for the body of a device push. The response to a larger body is `PayloadTooLarge`.
    static let bodyBytesMax = 4_096
    static let topicSuffix: StaticString = ".push-type.liveactivity"

    /// Makes all checks of a device push that do not need the device model. Returns the first fault, or `success`.
    static func validate(_ slot: UnsafeMutablePointer<RequestSlot>) -> SimulatedResponse {
        let head = slot.pointee.head
        guard head.method == .post else { return .methodNotAllowed }
        switch head.path {
        case .unknown, .broadcast, .channels, .channelList: return .badPath
        case .deviceWithoutToken: return .missingDeviceToken
        case .device, .deviceWithMalformedToken: break
        }
        if head.hasDuplicateField { return .duplicateHeaders }
        guard head.authorizationResponse == .success else { return head.authorizationResponse }
        guard head.isMessageIdentifierValid else { return .badMessageId }
        guard head.hasLiveActivityPushType else { return .invalidPushType }
        guard head.isPriorityValid else { return .badPriority }
        guard head.isExpirationValid else { return .badExpirationDate }
        guard head.isCollapseIdentifierValid else { return .badCollapseId }
        guard head.seenFields.contains(.topic) else { return .missingTopic }
        guard isTopic(slot.pointee.memory.prefix(head.topicByteCount, of: RequestMemory.topicByteRange)) else {
            return .badTopic
        }
        guard slot.pointee.receivedBodyByteCount > 0 else { return .payloadEmpty }
        guard slot.pointee.receivedBodyByteCount <= bodyBytesMax else { return .payloadTooLarge }
        guard head.path == .device else { return .badDeviceToken }
        return .success
    }

    /// Checks the topic and the device token against the known apps and tokens. Also returns the token's reference
    /// (`checkToken`); -1 for a refused topic.
    ///
    /// A topic without the suffix `.push-type.liveactivity` is not for Live Activities: with it, the response to a
    /// known token of a Live Activity is `DeviceTokenNotForTopic`.
    static func checkTopicAndToken(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        teamId: String,
        model: inout DeviceModel,
        nowMilliseconds: Int64
    ) -> (checkResult: TokenCheckResult, tokenReference: Int) {
        let memory = slot.pointee.memory
        let topic = memory.prefix(slot.pointee.head.topicByteCount, of: RequestMemory.topicByteRange)
        let suffixBytes = topicSuffix.utf8CodeUnitCount
        let hasSuffix =
            topic.count > suffixBytes
            && isEqual(UnsafeRawBufferPointer(rebasing: topic[(topic.count - suffixBytes)...]), topicSuffix)
        let bundle = hasSuffix ? UnsafeRawBufferPointer(rebasing: topic[..<(topic.count - suffixBytes)]) : topic
        guard let appIndex = model.appIndex(bundle: bundle),
            model.mayPush(team: teamId, to: appIndex)
        else { return (TokenCheckResult(response: .topicDisallowed), -1) }
        let token = memory.prefix(slot.pointee.head.tokenByteCount, of: RequestMemory.tokenByteRange)
        return model.checkToken(token: token, appIndex: hasSuffix ? appIndex : nil, nowMilliseconds: nowMilliseconds)
    }

    /// Whether the text is not empty and has only the characters of a topic: letters, digits, hyphens and dots.
    private static func isTopic(_ topic: UnsafeRawBufferPointer) -> Bool {
        guard !topic.isEmpty else { return false }
        for byte in topic {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."):
                continue
            default: return false
            }
        }
        return true
    }
}
