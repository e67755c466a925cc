/// Identifies a call to the store: its purpose, its app and its record. The shell gets this as the call's tag, and
/// returns the tag with the reply. So the core needs no table of the calls under way.
package struct StoreTicket: Sendable, Equatable, BitwiseCopyable {
    package enum Purpose: UInt8, Sendable, CaseIterable, BitwiseCopyable {
        /// A start asks for the push-to-start token of its device, and draws on the device's budget.
        case takeStartToken
        /// A command asks for its admission.
        case admit
        /// A reread start tells Redis its version, and is not sent.
        case recordStart
        /// A command without a token is stored in Redis until a token registers.
        case hold
        /// Redis registers a token: the token of a registration, or a token that a command brought.
        case registerToken
        /// A tombstone unregisters an activity. Its key may also be a device's id, so it makes this call and
        /// `unregisterDevice`, for one app after another.
        case unregisterActivity
        /// A tombstone unregisters a device: all its tokens, or only that of the attributes type that its key names.
        case unregisterDevice
        /// Redis records in the activity's value how a command ended.
        case settle
        /// A start is finished. Redis removes it from the device's hash if Redis holds it, and retires the device's
        /// push-to-start token if APNs refused the token.
        case settleStart
        /// APNs limits the activity's token, so Redis makes the activity's spacing longer. The command itself
        /// continues.
        case throttle
        /// A start was not sent, or is being deferred. Redis gives its draw back to the device's budget.
        case refundStart
        /// APNs responded that the activity's token is dead or unknown. Redis retires it. The command is then held for
        /// the next token.
        case retireToken
        /// An activity (or, with `confirmDeviceDepartures`, a device) has left audiences that a reply named. Redis
        /// records that these audiences are notified.
        case confirmActivityDepartures
        case confirmDeviceDepartures
        /// A record reports to the timetable that its activity began, lives or has ended, or that its lifetime is not
        /// limited.
        case reportLifetimeEvent
        /// A lifetime command asks whether the timetable still has the life that it names.
        case checkLifetime

        /// Whether `recordsAwaitingStoreCount` counts the call, because a command or registration waits for the reply.
        /// These calls are not counted:
        /// - The calls of a tombstone. The tombstone itself is counted once, for all its calls.
        /// - Calls that record a reread start or an outcome, refund a draw, or confirm departures.
        /// - `reportLifetimeEvent`, because most records make this call after they have their outcome.
        var isAwaited: Bool {
            switch self {
            case .takeStartToken, .admit, .hold, .registerToken, .throttle, .retireToken, .checkLifetime: true
            case .recordStart, .unregisterActivity, .unregisterDevice, .settle, .settleStart, .refundStart,
                .confirmActivityDepartures, .confirmDeviceDepartures, .reportLifetimeEvent:
                false
            }
        }
    }

    package var purpose: Purpose
    /// The index of the app. It is not taken from the record: one tombstone makes calls for several apps.
    package var appIndex: UInt16
    package var record: RecordIndex

    init(_ purpose: Purpose, appIndex: UInt16, record: RecordIndex) {
        self.purpose = purpose
        self.appIndex = appIndex
        self.record = record
    }

    package var tag: UInt64 { UInt64(purpose.rawValue) << 48 | UInt64(appIndex) << 32 | UInt64(record.rawValue) }

    /// - Returns: nil if no ticket has this tag.
    package init?(tag: UInt64) {
        guard let purpose = Purpose(rawValue: UInt8(truncatingIfNeeded: tag >> 48)) else { return nil }
        self.init(
            purpose,
            appIndex: UInt16(truncatingIfNeeded: tag >> 32),
            record: RecordIndex(rawValue: UInt32(truncatingIfNeeded: tag))
        )
    }
}
