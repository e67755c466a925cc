public import LiveActivity

/// The content of a device's hash: its push-to-start tokens and the starts that wait for them.
public struct DeviceInspection: Sendable, Equatable {
    public struct AttributesTypeState: Sendable, Equatable {
        public var attributesType: String
        public var token: InspectedToken?
        /// When ``token`` was registered. Without a token: when it was unregistered, or, if Redis retired it, a
        /// millisecond after its registration, so that this registration has no effect if it is read again. Nil if
        /// there was neither.
        public var registeredAtMilliseconds: Int64?
        /// The starts that wait for a token of this attributes type, oldest version first.
        public var heldStarts: [HeldStart] = []
    }

    public struct HeldStart: Sendable, Equatable {
        public var activity: [UInt8]
        public var version: Version
        public var command: [UInt8]
    }

    /// The tokens and held starts, sorted by attributes type.
    public private(set) var attributesTypeStates: [AttributesTypeState] = []
    private var startBudgetFullAtMilliseconds: Int64 = 0

    /// Decodes a device's hash.
    ///
    /// - Parameter fields: the reply to HGETALL, in pairs. Unknown fields are ignored.
    public init(fields: [(field: [UInt8], value: [UInt8])]) throws(InspectionError) {
        let hash = InspectedHash(fields)
        if var field = hash.field("s") { startBudgetFullAtMilliseconds = try field.readDecimalMilliseconds() }
        for type in hash.attributesTypes() {
            var typeState = AttributesTypeState(attributesType: type)
            (typeState.registeredAtMilliseconds, typeState.token) = try hash.readToken(ofAttributesType: type)
            if let field = hash.field("w:\(type)") { typeState.heldStarts = try Self.readHeldStarts(field) }
            attributesTypeStates.append(typeState)
        }
    }

    private static func readHeldStarts(_ field: InspectedField) throws(InspectionError) -> [HeldStart] {
        var (field, starts) = (field, [HeldStart]())
        while !field.unreadBytes.isEmpty {
            guard starts.count < StoreLimits.heldStartsMax else { throw field.error }
            let activityByteCount = Int(try field.readNumber(byteCount: 2))
            let commandByteCount = Int(try field.readNumber(byteCount: 4))
            let version = try field.readDecimalVersion()
            let activity = try field.readPart(field.name, count: activityByteCount).unreadBytes
            let command = try field.readPart(field.name, count: commandByteCount).unreadBytes
            starts.append(HeldStart(activity: activity, version: version, command: command))
        }
        return starts
    }

    /// Returns what is left now of the device's budget for starts.
    public func remainingStartBudget(_ bucket: Policy.Bucket, nowMilliseconds: Int64) -> InspectedBudget {
        InspectedBudget(bucket, fullAtMilliseconds: startBudgetFullAtMilliseconds, nowMilliseconds: nowMilliseconds)
    }
}
