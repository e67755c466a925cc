import Testing

@testable import ActivityStore

@Suite struct StoreScriptTests {
    @Test(arguments: StoreScript.allCases)
    func `Every named constant has its value`(script: StoreScript) {
        #expect(!script.luaSource.contains("@"), "the script has a name that is no constant's")
    }

    @Test func `Every constant is used by a script, and has its own name`() {
        let resources = StoreScript.allCases.flatMap(\.parts).map { String(decoding: $0, as: UTF8.self) }
        for constant in StoreScript.constants {
            #expect(resources.contains { $0.contains("@\(constant.name)@") }, "\(constant.name)")
        }
        #expect(Set(StoreScript.constants.map(\.name)).count == StoreScript.constants.count)
    }

    /// `admit.lua` lists the rules.
    @Test func `The letters of phases keep the order that the scripts rely on`() throws {
        let phases = [
            "NO_VERSION", "WAITING", "SENDING", "START_SENDING", "HELD", "SENDING_HELD", "HELD_ALERT",
            "SENDING_HELD_ALERT",
            "WAITING_OLDER_ALERT", "SENDING_OLDER_ALERT", "SETTLED", "NOT_SHOWN",
        ]
        func letter(_ phase: String) throws -> Int64 {
            try #require(StoreScript.constants.first { $0.name == phase }).value
        }
        let (held, sendingHeld) = (try letter("HELD"), try letter("SENDING_HELD_ALERT"))
        let heldPhases = try phases.filter { (held...sendingHeld).contains(try letter($0)) }
        #expect(heldPhases == ["HELD", "SENDING_HELD", "HELD_ALERT", "SENDING_HELD_ALERT"])
        let lastUnsentLetter = try letter("HELD_ALERT")
        #expect(try heldPhases.filter { try letter($0) <= lastUnsentLetter } == ["HELD", "HELD_ALERT"])
        let firstOlderAlertLetter = try letter("WAITING_OLDER_ALERT")
        let olderAlertPhases = try phases.filter { try letter($0) >= firstOlderAlertLetter }
        #expect(olderAlertPhases == ["WAITING_OLDER_ALERT", "SENDING_OLDER_ALERT"])
        let firstLowerCaseLetter = try letter("SENDING")
        #expect(try phases.allSatisfy { try letter($0) >= firstLowerCaseLetter })
    }
}
