import Testing

@testable import ActivityStore

@Suite struct StoreScriptTests {
    @Test(arguments: StoreScript.allCases)
    func `Every named constant has its value`(script: StoreScript) {
        #expect(!script.luaSource.contains("@"), "a name that no constant has")
    }

    @Test func `Every constant is used by a script, once named`() {
        let resources = StoreScript.allCases.flatMap(\.parts).map { String(decoding: $0, as: UTF8.self) }
        for constant in StoreScript.constants {
            #expect(resources.contains { $0.contains("@\(constant.name)@") }, "\(constant.name)")
        }
        #expect(Set(StoreScript.constants.map(\.name)).count == StoreScript.constants.count)
    }
}
