/// The header values that are the same for all Live Activity pushes of one app: topic, push type and paths.
public struct AppPushHeaders: Sendable, Hashable {
    /// `apns-topic`, the same for start, update and end: `<bundle id>.push-type.liveactivity`.
    public let topic: String
    /// The value of `apns-push-type`.
    public let pushType: String
    /// The `:path` of a push to a device, without the device token at its end.
    public let devicePathPrefix: String
    /// The `:path` of broadcasts. It names no channel, because the channel is in a header field of its own.
    public let broadcastPath: String

    /// The longest bundle id accepted, in bytes. This limits the size of a request's header block (R4).
    public static let bundleIdBytesMax = 255

    /// - Throws: ``InvalidSettingError`` if the bundle id is empty, too long, or has other characters than
    ///   letters, digits, `-` and `.`. Apple allows only these characters in `CFBundleIdentifier`.
    public init(liveActivitiesOf bundleId: String) throws(InvalidSettingError) {
        let isAllowed = bundleId.utf8.allSatisfy { byte in
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
        }
        guard isAllowed, !bundleId.isEmpty, bundleId.utf8.count <= Self.bundleIdBytesMax
        else {
            throw InvalidSettingError(
                setting: "bundleId",
                detail: "must be 1 to \(Self.bundleIdBytesMax) letters, digits, '-' and '.'"
            )
        }
        topic = bundleId + ".push-type.liveactivity"
        pushType = "liveactivity"
        devicePathPrefix = "/3/device/"
        broadcastPath = "/4/broadcasts/apps/" + bundleId
    }
}

/// Why a setting cannot be used.
public struct InvalidSettingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the setting, or the path of a key file that cannot be used.
    public var setting: String
    /// What is wrong with the setting.
    public var detail: String

    public var description: String { "\(setting): \(detail)" }
}

extension UInt8 {
    /// Whether the byte is an ASCII letter or digit.
    var isASCIIAlphanumeric: Bool {
        self &- UInt8(ascii: "0") < 10 || (self | 0x20) &- UInt8(ascii: "a") < 26
    }
}
