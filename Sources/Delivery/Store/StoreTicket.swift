/// Identifies a call of the activity store: its purpose and its record. A call's tag encodes its ticket.
package struct StoreTicket: Sendable, Equatable, BitwiseCopyable {
    package enum Purpose: UInt8, Sendable, CaseIterable, BitwiseCopyable {
        /// A start asks for the push-to-start token of its device.
        case address
        /// A command asks to be sent.
        case admit
        /// A command without a token is stored until one registers.
        case hold
        /// A registration of a token.
        case register
        /// A tombstone of the registrations topic, for the activity and for the device with that name, in one
        /// app.
        case unregisterActivity
        case unregisterDevice
        /// Records in the activity's value how a command ended.
        case settle
        /// Records in the device's hash that a held start is finished, or that a push-to-start token is dead.
        case settleDevice
        /// APNs limits the activity's token, so its spacing grows. The command itself continues.
        case limit
        /// Refunds the draw of a start that was not sent on its device's budget.
        case refundStart
        /// APNs answered that the activity's token is dead. The command is held for the next token.
        case retire
        /// Records that the audiences which a reply named are notified: the member, an activity or a device,
        /// left them.
        case confirmActivityLeaves
        case confirmDeviceLeaves
        /// Reports to the timetable of lifetimes that the activity began, lives or has ended.
        case noteLife
        /// Asks, for a command that ends an activity or starts it again, whether the timetable still has the
        /// life that the command names.
        case checkLife

        /// Whether the record waits for the reply before its next step. A tombstone has several calls, so it
        /// is counted by itself.
        var isAwaited: Bool {
            switch self {
            case .address, .admit, .hold, .register, .limit, .retire, .checkLife: true
            case .unregisterActivity, .unregisterDevice, .settle, .settleDevice, .refundStart, .confirmActivityLeaves,
                .confirmDeviceLeaves, .noteLife:
                false
            }
        }
    }

    package var purpose: Purpose
    /// The index of the app. The ticket has it because a tombstone names no app.
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
