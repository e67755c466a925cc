/// Carries what the apps post to where the worker reads it, as an app's server does.
struct RegistrationRelay {
    private static let pageRecords = 5_000
    private static let waitMilliseconds = 100

    let phones: SimulatedPhones
    /// Registrations carried so far: also the simulator's cursor.
    private(set) var count = 0

    init(phones: SimulatedPhones) {
        self.phones = phones
    }

    /// Takes a page, or waits a moment for the first of it.
    mutating func turn(to wire: CommandWire) throws(DemoError) {
        let page = try phones.registrations(
            since: count,
            limit: Self.pageRecords,
            waitMilliseconds: Self.waitMilliseconds
        )
        for record in page.records {
            while try !wire.register(key: record.key, value: record.value) { wire.takeReports() }
        }
        count = page.next
    }
}
