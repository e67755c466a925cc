import CausewayCommandLine
import Testing

@Suite struct SiblingProgramTests {
    private let lab = SiblingProgram(name: "causeway-lab", commands: ["demo"])

    @Test(arguments: [["causeway", "demo"], ["causeway", "help", "demo"], ["causeway", "demo", "--followers", "1"]])
    func `A command of the other program is named`(arguments: [String]) {
        #expect(lab.wrongProgramMessage(for: arguments) == "demo is a command of another program: causeway-lab demo")
    }

    @Test(arguments: [["causeway"], ["causeway", "help"], ["causeway", "worker"], ["causeway", "send", "demo"]])
    func `Any other command line is this program's own`(arguments: [String]) {
        #expect(lab.wrongProgramMessage(for: arguments) == nil)
    }
}
