import Delivery
import LiveActivity

extension StoreCall {
    /// The core's reason for the call. A tag that is not the core's fails the test.
    var ticket: StoreTicket {
        guard let ticket = StoreTicket(tag: tag) else { preconditionFailure("the core made a tag that it cannot read") }
        return ticket
    }

    /// The admission of an update or an end.
    var admission: StateAdmission<Bytes>? {
        if case .admit(let admission) = operation { admission } else { nil }
    }

    /// The admission of a start.
    var claim: UInt64? {
        if case .admitStart(_, let claim, _) = operation { claim } else { nil }
    }

    var previousClaim: UInt64? {
        if case .admitStart(_, _, let claim) = operation { claim } else { nil }
    }

    /// The token that the call registers, if any.
    var registration: TokenRegistration<Bytes>? {
        switch operation {
        case .admit(let admission): admission.registration
        case .address(_, _, let registration): registration
        case .register(let registration, _, _, _, _): registration
        case .registerDevice(_, let registration, _, _): registration
        default: nil
        }
    }

    /// The digests of the audiences that a registration names; nil: the call says nothing about audiences.
    var namedAudiences: Bytes? {
        switch operation {
        case .register(_, _, _, _, let audiences): audiences
        case .registerDevice(_, _, let step, _): step.audiences
        default: nil
        }
    }

    /// The held start that came back last with the registration of a device's token.
    var after: HeldStart<Bytes>? {
        if case .registerDevice(_, _, let step, _) = operation { step.heldStart } else { nil }
    }

    /// The token that a settlement retires, if any.
    var retirement: TokenRetirement<Bytes>? {
        switch operation {
        case .settle(_, _, _, let retirement, _): retirement
        case .retire(_, let retirement): retirement
        case .settleStart(_, _, let retirement): retirement
        default: nil
        }
    }

    /// The command to hold.
    var heldCommand: Bytes? {
        switch operation {
        case .hold(_, let command, _): command
        case .holdStart(_, let command): command
        default: nil
        }
    }

    /// Whether the command to hold carries an alert.
    var holdsAlert: Bool {
        if case .hold(_, _, true) = operation { true } else { false }
    }
}
