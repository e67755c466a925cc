import Delivery
import LiveActivity

extension StoreCall {
    /// What the core made the call for. A tag that is not the core's fails the test.
    var ticket: StoreTicket {
        guard let ticket = StoreTicket(tag: tag) else { preconditionFailure("the core made a tag that it cannot read") }
        return ticket
    }

    /// Of an update or an end.
    var admission: StateAdmission<Bytes>? {
        if case .admit(let admission) = operation { admission } else { nil }
    }

    /// Of a start.
    var claim: UInt64? {
        if case .admitStart(_, let claim, _) = operation { claim } else { nil }
    }

    var formerClaim: UInt64? {
        if case .admitStart(_, _, let claim) = operation { claim } else { nil }
    }

    /// The token that the call registers, if it does.
    var registration: TokenRegistration<Bytes>? {
        switch operation {
        case .admit(let admission): admission.registration
        case .address(_, _, let registration): registration
        case .register(let registration, _, _, _, _): registration
        case .registerDevice(_, let registration, _, _): registration
        default: nil
        }
    }

    /// Of a registration: the digests of the audiences that it names; nil: it says nothing of them.
    var namedAudiences: Bytes? {
        switch operation {
        case .register(_, _, _, _, let audiences): audiences
        case .registerDevice(_, _, let step, _): step.audiences
        default: nil
        }
    }

    /// Of the registration of a device's token: the start that came back last.
    var after: HeldStart<Bytes>? {
        if case .registerDevice(_, _, let step, _) = operation { step.heldStart } else { nil }
    }

    /// The token that a settlement retires, if it does.
    var retirement: TokenRetirement<Bytes>? {
        switch operation {
        case .settle(_, _, _, let retirement, _): retirement
        case .retire(_, let retirement): retirement
        case .settleStart(_, _, let retirement): retirement
        default: nil
        }
    }

    /// The command that is to be held.
    var heldCommand: Bytes? {
        switch operation {
        case .hold(_, let command, _): command
        case .holdStart(_, let command): command
        default: nil
        }
    }

    /// The command that is to be held carries an alert.
    var holdsAlert: Bool {
        if case .hold(_, _, true) = operation { true } else { false }
    }
}
