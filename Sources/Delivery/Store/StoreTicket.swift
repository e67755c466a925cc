/// Identifies a call of the activity store: what it is for, and for which record. A call's tag is its ticket.
package struct StoreTicket: Sendable, Equatable, BitwiseCopyable {
    package enum Purpose: UInt8, Sendable, CaseIterable, BitwiseCopyable {
        /// A start looks up the push-to-start token of its device.
        case address
        /// A command asks to be sent.
        case admit
        /// A command without a token is stored until one registers.
        case hold
        /// A registration.
        case register
        /// A tombstone of the registrations topic: for the activity and for the device of that name, in one app.
        case unregisterActivity
        case unregisterDevice
        /// Tells the activity's hash how a command ended.
        case settle
        /// Tells the device's hash that a held start is over, or that a push-to-start token is dead.
        case settleDevice
        /// APNs limits the activity's token, so its spacing grows. The command itself goes on.
        case limit
        /// A start that drew on its device's budget and was not sent refunds the draw.
        case refundStart
        /// APNs calls the activity's token dead. The command itself is held for the next one.
        case retire
        /// The audiences that a reply named as left know of it: of an activity, and of a device.
        case confirmActivityLeaves
        case confirmDeviceLeaves

        /// Whether the record's next step is the reply. A tombstone has several calls and counts itself once.
        var isAwaited: Bool {
            switch self {
            case .address, .admit, .hold, .register, .limit, .retire: true
            case .unregisterActivity, .unregisterDevice, .settle, .settleDevice, .refundStart, .confirmActivityLeaves,
                .confirmDeviceLeaves:
                false
            }
        }
    }

    package var purpose: Purpose
    /// Which configured app: a tombstone does not name one.
    package var application: UInt16
    package var record: UInt32

    init(_ purpose: Purpose, application: UInt16, record: UInt32) {
        self.purpose = purpose
        self.application = application
        self.record = record
    }

    package var tag: UInt64 { UInt64(purpose.rawValue) << 48 | UInt64(application) << 32 | UInt64(record) }

    /// - Returns: nil if the core makes no such tag.
    package init?(tag: UInt64) {
        guard let purpose = Purpose(rawValue: UInt8(truncatingIfNeeded: tag >> 48)) else { return nil }
        self.init(purpose, application: UInt16(truncatingIfNeeded: tag >> 32), record: UInt32(truncatingIfNeeded: tag))
    }
}
