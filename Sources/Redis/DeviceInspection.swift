/// What a device's hash says: its push-to-start tokens and the starts that wait for them.
public struct DeviceInspection: Sendable, Equatable {
    public struct Slot: Sendable, Equatable {
        public var attributesType: String
        public var token: InspectedToken?
        /// As in ``ActivityInspection``.
        public var registeredAtMilliseconds: Int64?
        /// The newest start that waits for a token; nil: none does.
        public var heldVersion: ScriptVersion?
        public var heldCommand: [UInt8] = []
    }

    /// By attributes type, in its order.
    public private(set) var slots: [Slot] = []
    private var fullAtMilliseconds: Int64 = 0

    /// - Parameter fields: what HGETALL answers, in pairs. Unknown ones are left aside.
    public init(fields: [(field: [UInt8], value: [UInt8])]) throws(InspectionError) {
        let hash = InspectedHash(fields)
        if var record = hash.reader("s") { fullAtMilliseconds = try record.milliseconds() }
        for type in hash.attributesTypes() {
            var slot = Slot(attributesType: type)
            (slot.registeredAtMilliseconds, slot.token) = try hash.token(suffix: ":\(type)")
            if var record = hash.reader("h:\(type)") {
                slot.heldVersion = try record.version()
                slot.heldCommand = record.rest
            }
            slots.append(slot)
        }
    }

    /// The bucket of starts.
    public func startBudget(_ numbers: BucketNumbers, nowMilliseconds now: Int64) -> InspectedBudget {
        InspectedBudget(numbers, fullAtMilliseconds: fullAtMilliseconds, nowMilliseconds: now)
    }
}
