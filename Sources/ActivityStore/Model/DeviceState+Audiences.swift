import LiveActivity

/// A device is in all audiences that the registrations of its attributes types name.
extension DeviceState {
    var departures: [UInt8]? { MemberAudiences.departures(leftAudiences, at: leftAtMilliseconds) }

    /// Changes the audiences that the device's registration for an attributes type names.
    /// - Returns: false, without a change, if too many audiences would not know yet that the device left them.
    mutating func changeAudiences(of type: String, to list: [UInt8], at milliseconds: Int64) -> Bool {
        let new = MemberAudiences.digests(list)
        let others = audiences { $0 != type }
        let old = slots[type]?.audiences ?? []
        let leaving = old.filter { !new.contains($0) && !others.contains($0) && !leftAudiences.contains($0) }
        let kept = leftAudiences.filter { !new.contains($0) }
        guard kept.count + leaving.count <= StoreLimits.departuresMax else { return false }
        leftAudiences = kept + leaving
        if !leaving.isEmpty { leftAtMilliseconds = max(milliseconds, leftAtMilliseconds + 1) }
        if leftAudiences.isEmpty { leftAtMilliseconds = 0 }
        if !new.isEmpty || slots[type] != nil { slots[type, default: Slot()].audiences = new }
        return true
    }

    /// Leaves the audiences that only the registrations of these attributes types name. Their tokens are dead or
    /// unregistered.
    mutating func leaveAudiences(of types: [String], at milliseconds: Int64) {
        let others = audiences { !types.contains($0) }
        var leaving: [UInt64] = []
        for type in types.sorted() {
            leaving += (slots[type]?.audiences ?? [])
                .filter {
                    !others.contains($0) && !leftAudiences.contains($0) && !leaving.contains($0)
                }
            slots[type]?.audiences = []
        }
        guard !leaving.isEmpty else { return }
        leftAudiences += leaving
        leftAtMilliseconds = max(milliseconds, leftAtMilliseconds + 1)
    }

    mutating func confirmDepartures(at milliseconds: Int64) -> (StoreReply<[UInt8]>, Expiry) {
        if leftAtMilliseconds == milliseconds { (leftAudiences, leftAtMilliseconds) = ([], 0) }
        return (StoreReply(.settled), .unchanged)
    }

    private func audiences(ofTypesWhere isMeant: (String) -> Bool) -> [UInt64] {
        slots.filter { isMeant($0.key) }.flatMap(\.value.audiences)
    }
}
